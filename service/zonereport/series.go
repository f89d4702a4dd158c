package zonereport

import (
	"cmp"
	"math"
	"slices"
	"time"

	"velocityd/service"
)

// Cause is the reason for which an account counts as entered after guesses.
type Cause string

// The causes. Successes of a user from an address from which there was one before the guesses began are left out: the
// owner's. So are all where more than one in mostGotIn others got in: an office, or a shared account.
const (
	// CauseSpray: the address had tried many users, and the last of them within the hour before.
	CauseSpray Cause = "spray"
	// CauseSources: the user had been tried from many addresses, from the last of them within the hour before.
	CauseSources Cause = "sources"
	// CauseGuesses: the address had made leastGuesses attempts at the user, or more, that were let through and did not
	// succeed, and none that did.
	CauseGuesses Cause = "guesses"
)

const (
	mostGotIn    = 4
	afterGuesses = time.Hour
	// leastGuesses is far above the number of times for which people mistype a password.
	leastGuesses = 10
	// leastSeries is how many attempts by one user from one address, without a success, are a series.
	leastSeries = 20
)

// The marks of a device that has an old password. People and most programs that guess are faster or less steady.
const (
	// wakeGap is the time within which attempts belong to one waking of the device.
	wakeGap = 30 * time.Second
	// leastWakings is how often it must have woken, within leastTime at least.
	leastWakings, leastTime = 10, 2 * time.Hour
	// In per cent, steadyPart of the gaps between wakings must lie between 100*100/steadyRange and steadyRange of the
	// median. The others may be the gaps of lockouts. Attempts by chance have 28 per cent there.
	steadyPart, steadyRange = 60, 150
	// mostPartners is how many series an address or a user may have: a device is of one owner, who has few of them.
	mostPartners = 3
)

// series is attempts by a user from an address without a success among them.
type series struct {
	keys     [2]uint32
	stretch  int
	tries    int // attempts, those that one txn counts too
	passed   int // attempts that were let through
	wakings  []int64
	last     int64
	success  *pair // by which it ended, or nil
	isKnown  bool  // the user had succeeded from the address before
	allTries int   // attempts of the user that were let through, from any address, before the success
}

// add adds an attempt. One that counts others stands for attempts at equal distances.
func (s *series) add(one pair) {
	n := max(1, int(one.attempts))
	if s.tries += n; !one.blocked {
		s.passed += n
	}
	step := (one.last - one.at) / int64(max(1, n-1))
	for i := range min(n, 1000) {
		at := one.at + int64(i)*step
		if len(s.wakings) == 0 || at-s.last > wakeGap.Microseconds() {
			s.wakings = append(s.wakings, at)
		}
		s.last = at
	}
	s.last = max(s.last, one.last)
}

// isLong reports whether a series is as long as that of a device. One without a success is so if it fills half of a
// short time that was read.
func (f *findings) isLong(s series) bool {
	least, read := leastTime, f.read[s.stretch]
	if s.success == nil {
		least = min(least, read.Until.Sub(read.Since.Time)/2)
	}
	return s.last-s.wakings[0] >= least.Microseconds()
}

// pace returns the median gap between wakings, and whether most gaps are near it.
func (s *series) pace() (median time.Duration, isSteady bool) {
	var gaps []int64
	for i := 1; i < len(s.wakings); i++ {
		gaps = append(gaps, s.wakings[i]-s.wakings[i-1])
	}
	if len(gaps) == 0 {
		return 0, false
	}
	slices.Sort(gaps)
	middle, near := gaps[len(gaps)/2], 0
	for _, gap := range gaps {
		if gap*steadyRange >= middle*100 && gap*100 <= middle*steadyRange {
			near++
		}
	}
	return time.Duration(middle) * time.Microsecond,
		len(s.wakings) >= leastWakings && near*100 >= len(gaps)*steadyPart
}

// readSeries finds the series of all users.
func (f *findings) readSeries() {
	f.groups(pairUser, func(all []pair) {
		if len(all) == 0 || !isManyTries(all) {
			return
		}
		known := map[uint32]bool{}
		f.stretches(all, func(stretch int, pairs []pair) {
			running, allTries := map[uint32]*series{}, 0
			for i, one := range pairs {
				address := one.keys[pairAddress]
				run := running[address]
				if run == nil {
					run = &series{keys: one.keys, stretch: stretch, isKnown: known[address]}
					running[address] = run
				}
				if one.success {
					run.success, run.allTries = &pairs[i], allTries
					f.keep(run)
					known[address] = true
					delete(running, address)
				} else {
					run.add(one)
				}
				if !one.blocked {
					allTries += max(1, int(one.attempts))
				}
			}
			for _, run := range running {
				f.keep(run)
			}
		})
	})
}

// isManyTries reports whether a user has as many attempts as a series needs.
func isManyTries(pairs []pair) bool {
	n := 0
	for _, one := range pairs {
		n += max(1, int(one.attempts))
	}
	return n >= leastGuesses
}

// keep keeps a series that is long enough to say something.
func (f *findings) keep(s *series) {
	if s.tries >= leastSeries || s.success != nil && s.passed >= leastGuesses {
		own := *s
		if s.success != nil {
			own.success = new(*s.success)
		}
		f.series = append(f.series, own)
	}
}

// classify tells devices with an old password from guesses, and notes the accounts that guesses have entered.
func (f *findings) classify() (guesses, devices []Series) {
	partners := map[burstKey]map[uint32]bool{}
	for _, s := range f.series {
		for place, key := range s.keys {
			of := burstKey{place, key}
			if partners[of] == nil {
				partners[of] = map[uint32]bool{}
			}
			partners[of][s.keys[1-place]] = true
		}
	}
	isGuess := map[[2]uint32]Series{}
	isDevice := map[[2]uint32]Series{}
	for _, s := range f.series {
		pace, isSteady := s.pace()
		inBurst, isAlone := false, true
		for place, key := range s.keys {
			inBurst = inBurst || f.isBurst[burstKey{place, key}]
			isAlone = isAlone && len(partners[burstKey{place, key}]) <= mostPartners
		}
		shown := f.shown(s, pace)
		switch {
		case isSteady && isAlone && !inBurst && f.isLong(s):
			longest(isDevice, s.keys, shown)
			continue
		case s.success != nil && !s.isKnown && s.passed >= leastGuesses:
			f.note(*s.success, CauseGuesses, s.allTries)
		}
		if s.tries >= leastSeries && !inBurst {
			longest(isGuess, s.keys, shown)
		}
	}
	for keys, s := range isGuess {
		if device, ok := isDevice[keys]; !ok || device.Tries < s.Tries {
			guesses = append(guesses, s)
			delete(isDevice, keys)
		}
	}
	for _, s := range isDevice {
		devices = append(devices, s)
	}
	return guesses, devices
}

// longest keeps the series with the most attempts of a pair.
func longest(of map[[2]uint32]Series, keys [2]uint32, s Series) {
	if s.Tries > of[keys].Tries {
		of[keys] = s
	}
}

// shown returns a series as reports have it.
func (f *findings) shown(s series, pace time.Duration) Series {
	all := f.all(pairUser, s.keys[pairUser], s.stretch)
	shown := Series{
		User: f.name(pairUser, s.keys[pairUser]), Address: f.name(pairAddress, s.keys[pairAddress]),
		Tries: int64(s.tries), Pace: service.Lasting(pace), Attempts: all.Attempts, Blocked: all.Blocked,
		BeginsAt: service.At(instantOf(s.wakings[0])), LastAt: service.At(instantOf(s.last)),
	}
	if s.success != nil {
		shown.SucceededAt, shown.TxnID = service.At(instantOf(s.success.at)), s.success.id
	}
	return shown
}

// enter notes the accounts that were entered in a burst. known are the others with a success before.
func (f *findings) enter(pairs []pair, place int, cause Cause, burst Burst, known map[uint32]bool) {
	since, tried, got := burst.BeginsAt.UnixMicro(), map[uint32]bool{}, map[uint32]bool{}
	var found []func()
	last := int64(math.MinInt64)
	for _, one := range pairs {
		other := one.keys[1-place]
		switch {
		case !one.success:
			tried[other], last = true, one.last
		case known[other] || got[other]:
		case one.at < since:
			known[other] = true
		default:
			got[other] = true
			if n := len(tried); one.at-last <= afterGuesses.Microseconds() {
				found = append(found, func() { f.note(one, cause, n) })
			}
		}
	}
	if len(got)*mostGotIn <= len(tried) {
		for _, note := range found {
			note()
		}
	}
}

// note notes an account that was entered, once from each address.
func (f *findings) note(success pair, cause Cause, after int) {
	if _, isNoted := f.entered[success.keys]; !isNoted {
		f.entered[success.keys] = Entry{
			User: f.name(pairUser, success.keys[pairUser]), Address: f.name(pairAddress, success.keys[pairAddress]),
			At: service.At(instantOf(success.at)), TxnID: success.id, Cause: cause, After: after,
		}
	}
}

func compareSeries(x, y Series) int {
	return cmp.Or(-cmp.Compare(x.TxnID, y.TxnID), -cmp.Compare(x.Tries, y.Tries), cmp.Compare(x.User, y.User),
		cmp.Compare(x.Address, y.Address))
}
