package console

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"

	"velocityd/console/format"
	"velocityd/console/settings"
	"velocityd/service"
	"velocityd/service/audit"
)

// auditPerPage is how many entries a page of the audit has.
const auditPerPage = 50

// auditList is the content of the page of the audit.
type auditList struct {
	Rows []auditRow
	// The filters as they were asked for.
	Zone, Subject, Action, By, Within string
	Key                               *service.Bucket // of the filter by key, whose address has it sealed; or nil
	SealedKey                         string
	Subjects, Actions                 []string
	// Older is the address of the next page; "" if there is none.
	Older template.URL
	// LookedTo is how far back the page looked without finding enough entries, or zero.
	LookedTo service.Instant
}

// auditRow is one change or release.
type auditRow struct {
	audit.Entry
	Changes []settings.Difference
}

// audit shows the entries of the audit, the newest first.
func (v *visit) audit() error {
	asked := v.r.URL.Query()
	list := auditList{
		Zone: asked.Get("zone"), Subject: asked.Get("subject"), Action: asked.Get("action"), By: asked.Get("by"),
		Within: asked.Get("within"), Subjects: audit.Subjects(), Actions: audit.Actions(), SealedKey: asked.Get("key"),
	}
	query, err := list.query(asked, v.Now())
	if err != nil {
		return err
	}
	if list.SealedKey != "" {
		bucket, ok := v.openKey(list.SealedKey)
		if !ok {
			return badFilter("key")
		}
		list.Key, query.Zones, query.Keys = &bucket, []int64{bucket.ZoneID}, []string{bucket.Key}
	}
	until := v.Now().Add(visitTimeout / 2)
	page, err := audit.Collect(v.r.Context(), v.api, query, func() bool { return v.Now().Before(until) })
	if err != nil {
		return err
	}
	for _, entry := range page.Entries {
		list.Rows = append(list.Rows, auditRowOf(entry))
	}
	if page.Next != 0 {
		asked.Set("before", strconv.FormatUint(page.Next, 10))
		asked.Del("done")
		list.Older = template.URL("?" + asked.Encode()) //nolint:gosec // it is encoded
		if len(page.Entries) < auditPerPage {
			list.LookedTo = page.ScannedUntil
		}
	}
	return v.show("audit", "Audit", "Audit", list)
}

// query returns the question for the filters of an address. One that cannot be read is an error, as in the history.
func (l auditList) query(asked url.Values, now time.Time) (audit.Query, error) {
	q := audit.Query{By: l.By, Limit: auditPerPage}
	if l.Zone != "" {
		zone, err := strconv.ParseInt(l.Zone, 10, 32)
		if err != nil {
			return q, badFilter("zone")
		}
		q.Zones = []int64{zone}
	}
	if l.Subject != "" {
		q.Subjects = []string{l.Subject}
	}
	if l.Action != "" {
		q.Actions = []string{l.Action}
	}
	if l.Within != "" {
		hours, err := strconv.ParseUint(l.Within, 10, 16) // 16 bits are 7 years, and no overflow
		if err != nil {
			return q, badFilter("within")
		}
		q.Since = now.Add(-time.Duration(hours) * time.Hour)
	}
	q.Cursor, _ = strconv.ParseUint(asked.Get("before"), 10, 64) // 0 is the newest page
	return q, nil
}

func auditRowOf(e audit.Entry) auditRow {
	row := auditRow{e, settings.ChangesOf(e)}
	row.Changes = slices.DeleteFunc(row.Changes, func(d settings.Difference) bool {
		return d.Name == "bucket_key" || d.Name == "reason" && d.New == format.Visible(row.Reason)
	})
	return row
}
