package console

import (
	"html/template"
	"maps"
	"net/url"
	"strconv"

	"velocityd/client"
	"velocityd/console/chart"
	"velocityd/console/format"
	"velocityd/service"
)

// funcs returns the functions of templates. Those that return HTML escape all text that they are given.
func (c *console) funcs() template.FuncMap {
	all := template.FuncMap{
		"file": c.files.address, "zonePath": zonePath, "txnPath": txnPath, "overridePath": overridePath,
		"historyPath": c.historyPath,
		"triedPath":   c.triedPath,
		"addressTime": addressTime,
		"slug":        slug,
		"bucket":      bucketOf, "keyPath": c.keyPath, "sealed": c.sealedKey, "spark": chart.Spark,
		"chart":         chart.ChartOf,
		"numberAndName": client.NumberAndName,
	}
	maps.Copy(all, format.Funcs())
	return all
}

func zonePath(id int64) string { return Path + "zones/" + strconv.FormatInt(id, 10) }
func overridePath(zone int64, id uint64) string {
	return Path + "overrides/" + strconv.FormatInt(zone, 10) + "/" + strconv.FormatUint(id, 10)
}
func txnPath(id uint64) string { return Path + "txns/" + strconv.FormatUint(id, 10) }

// bucketOf returns the bucket of a key in a zone.
func bucketOf(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

// sealedKey returns a bucket for an address: a key names a person, and addresses stand in the logs of proxies.
func (c *console) sealedKey(bucket service.Bucket) string { return url.PathEscape(c.keys.seal(bucket)) }

// keyPath returns the path of the story of a bucket's key.
func (c *console) keyPath(bucket service.Bucket) string { return Path + "keys/" + c.sealedKey(bucket) }

// openKey returns the bucket of a sealed text, unless it is in a zone that is not one of the reader's: another reader
// may have passed the link on.
func (v *visit) openKey(sealed string) (bucket service.Bucket, ok bool) {
	return bucket, v.keys.open(sealed, &bucket) && (bucket.ZoneID == 0 || v.reader.Reaches(bucket.ZoneID))
}
