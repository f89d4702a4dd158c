package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestServeTellsSystemdWhenItListens(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	folder, err := os.MkdirTemp("", "v") //nolint:usetesting // the path of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for _, address := range []string{filepath.Join(folder, "notify"), "@velocityd-" + filepath.Base(folder)} {
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
		i := launch(t, environment{"VELOCITY_DSN": d.DSN, "NOTIFY_SOCKET": address}, "serve")
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 100)
		n, err := socket.Read(text)
		if err != nil || string(text[:n]) != "READY=1" {
			t.Fatalf("%s: got %q, %v", address, text[:n], err)
		}
		if addressIn(i.stderr.String()) == "" {
			t.Errorf("%s: it was told before the service listened", address)
		}
	}
}

func TestServeGoesOnWithoutTheSocketOfSystemd(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	i := start(t, environment{"VELOCITY_DSN": d.DSN, "NOTIFY_SOCKET": "/nowhere/notify"}, "serve")
	enginetest.Eventually(t, "the log says so",
		func() bool { return strings.Contains(i.stderr.String(), "systemd was not told") })
}
