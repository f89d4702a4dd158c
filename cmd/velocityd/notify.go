package main

import (
	"context"
	"errors"
	"net"
	"time"
)

// notifyReady tells systemd that the service listens, for a unit of Type=notify (sd_notify(3), READY=1). It does
// nothing unless NOTIFY_SOCKET names a socket. Go reads an @ in front as systemd does: the socket is not in the file
// system.
func notifyReady(ctx context.Context, lookupEnv func(string) (string, bool)) (err error) {
	address, _ := lookupEnv("NOTIFY_SOCKET")
	if address == "" {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unixgram", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = conn.Write([]byte("READY=1"))
	return err
}
