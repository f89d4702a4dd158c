package console

import "velocityd/service"

// attackers are keys of one zone that a report names.
type attackers struct {
	*attacks
	ZoneID, OtherID int64 // OtherID is the zone of the keys that Bursts try, or are tried from
	Report          *service.ZoneReport
	Bursts          []service.Burst
}

// Sprays are the addresses that try many users.
func (a *attacks) Sprays() attackers {
	return attackers{a, a.Addresses.ID, a.Users.ID, a.ByUser, a.ByUser.Sprays}
}

// Targets are the users who are tried from many addresses.
func (a *attacks) Targets() attackers {
	return attackers{a, a.Users.ID, a.Addresses.ID, a.ByUser, a.ByUser.Targets}
}

// OfUsers are the users who were stopped, and those near the limit.
func (a *attacks) OfUsers() attackers {
	return attackers{attacks: a, ZoneID: a.Users.ID, Report: a.ByUser}
}

// OfAddresses are the same of addresses.
func (a *attacks) OfAddresses() attackers {
	return attackers{attacks: a, ZoneID: a.Addresses.ID, Report: a.ByAddr}
}

// Origin returns that of a key, or nil.
func (a attackers) Origin(key string) *service.Origin {
	if origin, ok := a.Report.Origins[key]; ok {
		return &origin
	}
	return nil
}

// Shown are the keys that were stopped most.
func (a attackers) Shown() []service.KeyTotals {
	return a.Report.Stopped[:min(len(a.Report.Stopped), shownKeys)]
}

// ShownNear are the keys that came nearest to the limit.
func (a attackers) ShownNear() []service.NearKey {
	return a.Report.Near[:min(len(a.Report.Near), shownKeys)]
}
