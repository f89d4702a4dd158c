//go:build !linux

package main

import "syscall"

// childAttributes keep a terminal's Ctrl-C from the process.
func childAttributes() *syscall.SysProcAttr { return groupAttributes() }

// groupAttributes put the process and its children into a new process group.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
