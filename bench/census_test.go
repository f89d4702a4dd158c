package main

import (
	"os"
	"reflect"
	"testing"

	"velocityd/bench/round"
)

func TestAClustersProcessesAreToldApart(t *testing.T) {
	t.Parallel()
	got := sortProcesses(map[int][]string{
		1: {"/cache/etcd", "--data-dir=x"}, 2: {"/cache/vtgate", "--cell=zone1"}, 3: {"/cache/vtgate", "--cell=zone1"}, 4: {"vtorc"},
		5:  {"/cache/vttablet", "--tablet-path=zone1-0000000100", "--init-keyspace=velocityd", "--init-shard=0"},
		6:  {"/cache/vttablet", "--tablet-path=zone1-0000000101", "--init-keyspace=velocityd_buckets", "--init-shard=-80"},
		7:  {"/lib/ld-linux", "--library-path", "x", "/usr/sbin/mysqld", "--datadir=/tmp/c/mysql-100/data"},
		8:  {"/usr/sbin/mysqld", "--datadir=/tmp/c/mysql-101/data"},
		9:  {"/usr/sbin/mysqld", "--datadir=/tmp/c/mysql-101"},
		10: {"bash", "-c", "cluster"}, 11: {"bin/bench", "-cluster", "env"},
	})
	for kind, want := range map[string][]int{
		round.Vttablet: {6}, round.ZoneTablet: {5}, round.ZoneMysqld: {7},
	} {
		if !reflect.DeepEqual(got[kind], want) {
			t.Errorf("%s: %v, want %v", kind, got[kind], want)
		}
	}
	for kind, want := range map[string]int{round.Vtgate: 2, round.Others: 2, round.Mysqld: 2} {
		if len(got[kind]) != want {
			t.Errorf("%s: %v, want %d", kind, got[kind], want)
		}
	}
}

func TestProcessesCanBeNamed(t *testing.T) {
	t.Parallel()
	got, err := parseCensus("mysqld=12,mysqld=13,vtgate=14")
	if want := (census{"mysqld": {12, 13}, "vtgate": {14}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, broken := range []string{"", "12", "mysqld=", "=12", "mysqld=x"} {
		if got, err := parseCensus(broken); err == nil {
			t.Errorf("%q: %v", broken, got)
		}
	}
	// This process has a parent, which is looked for without a cluster below it.
	if c, err := findCensus(os.Getpid()); err == nil {
		t.Errorf("a cluster below a test: %v", c)
	}
	if used, err := (census{"test": {os.Getpid()}}).look(); err != nil || len(used) != 1 {
		t.Errorf("%v, %v", used, err)
	}
}

func TestADSNWithSeveralAddressesIsUsedWithItsFirst(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"u@tcp(127.0.0.1:1,127.0.0.1:2)/v?x=y": "u@tcp(127.0.0.1:1)/v?x=y", "u@tcp(127.0.0.1:1)/v": "u@tcp(127.0.0.1:1)/v", "/v": "/v",
	} {
		if got := firstAddress(dsn); got != want {
			t.Errorf("%s is used as %s, want %s", dsn, got, want)
		}
	}
}

func TestAMetricIsReadByItsWholeName(t *testing.T) {
	t.Parallel()
	const text = "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_count 7\na_counted 9\na_sum 1.5e3\n"
	if count, sum, none := metric(text, "a_count"), metric(text, "a_sum"), metric(text, "a"); count != 7 || sum != 1500 || none != 0 {
		t.Errorf("%v, %v, %v", count, sum, none)
	}
}
