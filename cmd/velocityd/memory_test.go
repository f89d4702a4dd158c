package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/localdb"
	"velocityd/service"
)

// BenchmarkSmokeMemory reports the most memory that a serving process took, as
// the kernel counts it (VmHWM of /proc), while 500 connections asked in a closed
// loop for ten seconds. Run it with -benchtime=1x (make bench-smoke).
func BenchmarkSmokeMemory(b *testing.B) {
	const connections, length = 500, 10 * time.Second
	binary := filepath.Join(b.TempDir(), "velocityd")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	server := dbtest.Private(b, localdb.MySQL, b.TempDir())
	d := dbtest.Empty(b, dbtest.AdminDSN(server, ""))
	dbtest.Migrate(b, d.DSN)
	d.SetZone(b, service.Zone{ID: 1, Description: "login per user", Rate: 5, Window: time.Minute})
	log := newOutput()
	program := exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--log-format", "json")
	program.Env = append(os.Environ(), "VELOCITY_DSN="+d.DSN)
	program.Stderr = log
	if err := program.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = program.Wait() }()
	defer func() { _ = program.Process.Signal(os.Interrupt) }()
	for addressIn(log.String()) == "" {
		<-log.wrote
	}
	url := "http://" + addressIn(log.String()) + "/v1/check"
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	var answered, refused atomic.Int64
	for b.Loop() {
		began := time.Now()
		var callers sync.WaitGroup
		for range connections {
			callers.Go(func() {
				for time.Since(began) < length {
					status, err := post(client, url)
					if err != nil {
						b.Error(err)
						return
					}
					if status == http.StatusOK {
						answered.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
		}
		callers.Wait()
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", program.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	peak, err := strconv.Atoi(string(match[1]))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(peak)/1024, "MiB-peak")
	b.ReportMetric(float64(answered.Load())/length.Seconds(), "checks/s")
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(0, "ns/op")
}

// post asks one check of a random user.
func post(client *http.Client, url string) (status int, err error) {
	body := fmt.Sprintf(`{"zone_id":1,"bucket_key":"user-%d"}`, rand.IntN(100_000))
	response, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(new(bytes.Buffer), response.Body)
	return response.StatusCode, err
}
