// Package demo owns a day of plausible log-ins for velocityd dev: people, an address that sprays passwords, a user that
// is flooded, and a phone with an old password. The reference store decides them, each at its instant, and the rows are
// written as a database would have recorded them. It must not know how an attempt is decided.
package demo

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// attempt is one try to log in.
type attempt struct {
	at         time.Time
	user       string
	address    string
	succeeds   bool
	hasOutcome bool // whether the login server ever says how it ended
}

const (
	// seed makes each day alike.
	seed = 38
	// people is how many people log in on that day.
	people = 420
)

// day returns the attempts of the 24 hours before end, the oldest first.
func day(end time.Time) []attempt {
	random := rand.New(rand.NewPCG(seed, seed))
	begin := end.Add(-24 * time.Hour)
	all := slices.Concat(
		peopleOf(random, begin), spray(random, begin.Add(9*time.Hour)), flood(random, end.Add(-50*time.Minute)),
		phone(random, begin))
	slices.SortFunc(all, func(a, b attempt) int { return cmp.Compare(a.at.UnixMicro(), b.at.UnixMicro()) })
	return slices.DeleteFunc(all, func(a attempt) bool { return !a.at.Before(end) })
}

// name returns that of one of the people.
func name(i int) string {
	given := []string{
		"ada", "boris", "carla", "dmitri", "elif", "farid", "greta", "hana", "ivan", "jana", "kofi", "lena", "mei", "noor",
		"olga", "pablo", "quinn", "rosa", "sven", "tara", "umar", "vera", "wim", "xenia", "yara", "zoe",
	}
	family := []string{
		"adler", "brandt", "costa", "diaz", "evans", "fischer", "garcia", "horvat", "ito", "jansen", "kaya",
		"lopez", "moreau", "novak", "okafor", "popov", "rossi",
	}
	return given[i%len(given)] + "." + family[(i/len(given)+i)%len(family)]
}

// home returns the address from which one of the people logs in. Some share one.
func home(i int) string {
	if i%7 == 0 {
		return "2001:db8:" + fmt.Sprintf("%x::%x", i%11, i)
	}
	return fmt.Sprintf("198.51.100.%d", 1+i%200)
}

// busy is how likely a log-in is in each hour of a working day, in per cent of the busiest.
func busy(hour int) int {
	return []int{6, 4, 3, 3, 4, 9, 22, 55, 100, 92, 80, 74, 70, 78, 82, 76, 66, 54, 40, 34, 30, 26, 18, 10}[hour]
}

// peopleOf returns log-ins of people. One in ten mistypes the password first.
func peopleOf(random *rand.Rand, begin time.Time) (all []attempt) {
	for i := range people {
		for range 2 + random.IntN(14) {
			at := begin.Add(time.Duration(random.Int64N(int64(24 * time.Hour))))
			if random.IntN(100) >= busy(at.UTC().Hour()) {
				continue
			}
			for random.IntN(10) == 0 {
				all = append(all, attempt{at, name(i), home(i), false, true})
				at = at.Add(4*time.Second + time.Duration(random.Int64N(int64(9*time.Second))))
			}
			all = append(all, attempt{at, name(i), home(i), true, random.IntN(50) > 0})
		}
	}
	return all
}

// spray returns tries of one password by one address, for name after name. One of them succeeds.
func spray(random *rand.Rand, at time.Time) (all []attempt) {
	for i := range 160 {
		all = append(all, attempt{at, name(i * 3), "203.0.113.77", i == 101, true})
		at = at.Add(2*time.Second + time.Duration(random.Int64N(int64(3*time.Second))))
	}
	return all
}

// flood returns tries of many addresses for one name, until now.
func flood(random *rand.Rand, at time.Time) (all []attempt) {
	for range 420 {
		all = append(all, attempt{at, "admin", fmt.Sprintf("192.0.2.%d", 1+random.IntN(90)), false, true})
		at = at.Add(time.Second + time.Duration(random.Int64N(int64(13*time.Second))))
	}
	return all
}

// phone returns the tries of a phone that has the password of last month: one every four minutes, and bursts when it is
// woken up.
func phone(random *rand.Rand, at time.Time) (all []attempt) {
	for range 300 {
		burst := 1
		if random.IntN(12) == 0 {
			burst = 7
		}
		for i := range burst {
			all = append(all, attempt{at.Add(time.Duration(i) * 3 * time.Second), "greta.kaya", "198.51.100.23", false, true})
		}
		at = at.Add(4*time.Minute + time.Duration(random.Int64N(int64(90*time.Second))))
	}
	return all
}
