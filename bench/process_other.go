//go:build !linux

package main

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the process.
func childAttributes() *syscall.SysProcAttr { return groupAttributes() }

// groupAttributes make a group of the process and what it starts.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
