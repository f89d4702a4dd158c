package pam

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/client/fake"
	"velocityd/service"
)

const rate = 3

// newDoor returns a Door to a service in memory, whose zone 1 limits users and zone 2 addresses.
func newDoor(t *testing.T) (Door, *fake.Service, string) {
	t.Helper()
	asked := fake.New(t,
		service.Zone{
			ID: 1, Rate: rate, Window: time.Hour, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyUsername},
		},
		service.Zone{
			ID: 2, Rate: 100, Window: time.Hour, Counts: service.CountsFailures,
			Keys: service.KeyRule{Kind: service.KeyIP},
		})
	path := filepath.Join(t.TempDir(), "run")
	folder, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(folder.Close)
	program, err := Parent()
	if err != nil {
		t.Fatal(err)
	}
	return Door{Service: asked, UserZone: 1, AddressZone: 2, Folder: folder, Program: program}, asked, path
}

func login(step string) Login {
	return Login{User: "alice", Host: "203.0.113.9", Service: "sshd", Step: step}
}

// try is a password that is typed: PAM asks before it, and goes on to the end of auth if it is right.
func (d Door) try(t *testing.T, isRight bool) (blocked bool) {
	t.Helper()
	blocked, err := d.Check(t.Context(), login(StepAuth))
	if err != nil {
		t.Fatal(err)
	}
	if !blocked && isRight {
		d.step(t, StepAuth)
	}
	return blocked
}

func (d Door) step(t *testing.T, step string) {
	t.Helper()
	if err := d.Success(t.Context(), login(step)); err != nil {
		t.Fatal(err)
	}
}

func outcomes(asked *fake.Service) (list []string) {
	for _, txn := range asked.Txns(service.Bucket{ZoneID: 1, Key: "alice"}) {
		list = append(list, string(txn.Outcome))
	}
	slices.Sort(list)
	return list
}

func holds(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestSuccessGoesToLastTryFailuresToEarlier(t *testing.T) {
	t.Parallel()
	d, asked, path := newDoor(t)
	for _, isRight := range []bool{false, false, true} {
		if d.try(t, isRight) {
			t.Fatal("blocked within the rate")
		}
	}
	holds(t, "before the account", outcomes(asked), "", "", "")
	d.step(t, StepAccount)
	holds(t, "after it", outcomes(asked), "failure", "failure", "success")
	d.step(t, StepSession) // has nothing left to report
	if names, err := os.ReadDir(path); err != nil || len(names) > 0 {
		t.Errorf("the folder has %v (%v), want nothing", names, err)
	}
	if d.try(t, false) || !d.try(t, true) {
		t.Error("want the success's place to be free, and no further one")
	}
}

func TestKeyLoginReportsNothingAboutPasswords(t *testing.T) {
	t.Parallel()
	d, asked, _ := newDoor(t)
	d.step(t, StepAccount) // without any password
	d.try(t, false)
	d.step(t, StepAccount)
	holds(t, "a key after a wrong password", outcomes(asked), "")
	d.try(t, true) // and the account was refused
	d.try(t, false)
	d.step(t, StepAccount)
	holds(t, "a key after a right and a wrong one", outcomes(asked), "", "", "")
	if !d.try(t, false) {
		t.Fatal("the place beyond the rate is free")
	}
	d.step(t, StepAuth) // as under the control required, with the right password
	d.step(t, StepAccount)
	holds(t, "a key after a blocked one", outcomes(asked), "", "", "", "")
}

func TestOtherProgramsAndUsersHaveOtherTries(t *testing.T) {
	t.Parallel()
	d, asked, path := newDoor(t)
	d.try(t, true)
	other := d
	other.Program.start++ // has the same number, later
	other.step(t, StepAccount)
	eve := login(StepAccount)
	eve.User = "eve"
	if err := d.Success(t.Context(), eve); err != nil {
		t.Fatal(err)
	}
	holds(t, "of others", outcomes(asked), "")
	other.try(t, true) // its file goes with the next check, because there is no such program
	d.step(t, StepAccount)
	holds(t, "of both", outcomes(asked), "", "success")
	d.try(t, false)
	names, err := os.ReadDir(path)
	if err != nil || len(names) != 1 || names[0].Name() != d.Program.stateOf(login(StepAuth)) ||
		strings.Contains(names[0].Name(), "alice") {
		t.Errorf("the folder has %v (%v), want the tries of the living program alone", names, err)
	}
}

func TestAddressesAreLimitedWhereTheyAreKnown(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"203.0.113.9": "203.0.113.9", "::ffff:203.0.113.9": "203.0.113.9", "fe80::1%eth0": "fe80::", "": "",
		"host.example": "",
	} {
		d, asked, _ := newDoor(t)
		l := login(StepAuth)
		l.Host = host
		if _, err := d.Check(t.Context(), l); err != nil {
			t.Errorf("%q: %v", host, err)
		}
		if got := len(asked.Txns(service.Bucket{ZoneID: 2, Key: want + map[bool]string{true: "/64"}[want == "fe80::"]})); (got == 1) != (want != "") {
			t.Errorf("%q: %d txns of %q", host, got, want)
		}
		d.UserZone = 0
		if _, err := d.Check(t.Context(), l); (err != nil) != (host == "host.example") {
			t.Errorf("%q, addresses alone: %v", host, err)
		}
	}
}

// away is a service that answers nothing.
type away struct{ Service }

func (away) Check(context.Context, service.Check) (service.Decision, error) {
	return service.Decision{}, service.ErrUndecided
}

func TestTryWithLostAnswerMayHaveBeenCounted(t *testing.T) {
	t.Parallel()
	d, asked, _ := newDoor(t)
	d.try(t, false)
	lost := d
	lost.Service = away{}
	if _, err := lost.Check(t.Context(), login(StepAuth)); !errors.Is(err, service.ErrUndecided) {
		t.Fatalf("got %v", err)
	}
	d.step(t, StepAuth)
	d.step(t, StepAccount) // of which the service knows nothing
	holds(t, "the earlier try", outcomes(asked), "failure")
}

func TestAFileOfTriesIsBounded(t *testing.T) {
	t.Parallel()
	d, _, path := newDoor(t)
	name := d.Program.stateOf(login(StepAuth))
	for range 2 * mostBytes / 27 {
		if err := d.Folder.add(name, strings.Repeat("A", 26)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(path, name))
	if err != nil || info.Size() > mostBytes || info.Mode().Perm() != 0o600 {
		t.Errorf("%v bytes, %v (%v)", info.Size(), info.Mode(), err)
	}
	if attempts, _, err := d.Folder.take(name); err != nil || len(attempts) == 0 || len(attempts) > mostBytes/27 {
		t.Errorf("%d tries, %v", len(attempts), err)
	}
}

func TestFolderWritableByOthersIsRefused(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // is tested
		t.Fatal(err)
	}
	if _, err := OpenFolder(path); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("got %v", err)
	}
}

// FuzzTries holds that no file breaks its reader, and that only a try that ends the file is marked.
func FuzzTries(f *testing.F) {
	for _, text := range []string{
		"", "A\n", "A\nright\n", "A\nright\nB\n", "right\n", "\nright\n", "A\nright\nright\n",
		"A\nright",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		attempts, isMarked := parseTries(text)
		if isMarked && !strings.HasSuffix(strings.TrimSuffix(text, "\n"), attempts[len(attempts)-1]+"\n"+right) {
			t.Errorf("%q: marked, of %q", text, attempts)
		}
	})
}

// FuzzStart holds that a program can not choose its start by its name.
func FuzzStart(f *testing.F) {
	for _, name := range []string{"a", "a) b", ") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 (", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, err := parseStart("1 (" + name + ") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"); err != nil ||
			got != 4711 {
			t.Errorf("%q: got %d, %v", name, got, err)
		}
		if got, err := parseStart(name); err == nil && len(strings.Fields(name)) < 20 {
			t.Errorf("%q: read as %d", name, got)
		}
	})
}
