//go:build !linux

package main

import (
	"os"
	"syscall"
)

// childAttributes keep a terminal's Ctrl-C from the process.
func childAttributes() *syscall.SysProcAttr { return groupAttributes() }

// peakOf returns 0: each system counts in another unit.
func peakOf(*os.ProcessState) int64 { return 0 }
