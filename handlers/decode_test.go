package handlers

import (
	"net/http"
	"strings"
	"testing"
)

func TestCheckRefusesWhatIsNotStrictJSON(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for name, test := range map[string]struct{ body, pointer, detail string }{
		"unknown member": {`{"zone_id":1,"bucket_key":"secret","x":1}`, "/x", "not known"},
		"unknown member in bucket": {
			`{"buckets":[{"zone_id":1,"bucket_key":"secret","rate":1}]}`, "/buckets/0/rate",
			"not known",
		},
		"member in another case": {`{"zone_id":1,"Bucket_Key":"secret"}`, "/Bucket_Key", "not known"},
		"key as a member name":   {`{"zone_id":1,"secret@example.org":1}`, "", "not known"},
		"long member name":       {`{"` + strings.Repeat("secret", 20) + `":1}`, "", "not known"},
		"duplicate member":       {`{"zone_id":1,"bucket_key":"secret","zone_id":1}`, "/zone_id", "given twice"},
		"escaped duplicate":      {`{"zone_id":1,"bucket_key":"secret","zone\u005fid":1}`, "/zone_id", "given twice"},
		"fraction":               {`{"zone_id":1.5,"bucket_key":"secret"}`, "/zone_id", "whole number"},
		"exponent":               {`{"zone_id":1e0,"bucket_key":"secret"}`, "/zone_id", "whole number"},
		"2^63":                   {`{"zone_id":9223372036854775808,"bucket_key":"secret"}`, "/zone_id", "whole number"},
		"number in quotes":       {`{"zone_id":"1","bucket_key":"secret"}`, "/zone_id", "whole number"},
		"zone null":              {`{"zone_id":null,"bucket_key":"secret"}`, "/zone_id", "null"},
		"key null":               {`{"zone_id":1,"bucket_key":null}`, "/bucket_key", "null"},
		"key number":             {`{"zone_id":1,"bucket_key":42}`, "/bucket_key", "a string"},
		"buckets null":           {`{"buckets":null}`, "/buckets", "null"},
		"bucket null":            {`{"buckets":[null]}`, "/buckets/0", "null"},
		"buckets object":         {`{"buckets":{"zone_id":1}}`, "/buckets", "an array"},
		"null":                   {`null`, "", "null"},
		"white space":            {" \n ", "", "near byte"},
		"leading zero":           {`{"zone_id":01,"bucket_key":"secret"}`, "", "near byte"},
		"trailing garbage":       {bucketJSON(1, "secret") + "x", "", "near byte"},
		"byte order mark":        {"\ufeff" + bucketJSON(1, "secret"), "", "near byte"},
		"cut short":              {`{"zone_id":1,"bucket_key":"secret`, "/bucket_key", "near byte"},
		"lone surrogate":         {`{"zone_id":1,"bucket_key":"secret\ud800"}`, "/bucket_key", "surrogates"},
		"invalid UTF-8":          {"{\"zone_id\":1,\"bucket_key\":\"secret\xff\"}", "/bucket_key", "UTF-8"},
		"surrogate in a name":    {`{"\ud800":1}`, "", "surrogates"},
		"deep nesting":           {`{"zone_id":` + strings.Repeat("[", 100_000), "/zone_id", "near byte"},
		"error deep in a value":  {`{"zone_id":{"secret":[{"secret":+`, "/zone_id", ""},
		"object as list":         {`{"buckets":{"secret":+`, "/buckets", ""},
		"empty":                  {"", "", "empty"},
		"raw control":            {"{\"zone_id\":1,\"bucket_key\":\"secret\x01\"}", "/bucket_key", "near byte"},
		"surrogate as UTF-8":     {"{\"zone_id\":1,\"bucket_key\":\"secret\xed\xa0\x80\"}", "/bucket_key", "UTF-8"},
		"unknown escape":         {`{"zone_id":1,"bucket_key":"secret\x"}`, "/bucket_key", "near byte"},
	} {
		p := r.post(t, "/v1/check", test.body).refused(t, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(p.Detail, test.detail) || p.Pointer != test.pointer {
			t.Errorf("%s: at %q: %s; want %q at %q", name, p.Pointer, p.Detail, test.detail, test.pointer)
		}
		if strings.Contains(p.Detail+p.Pointer, "secret") {
			t.Errorf("%s: the problem repeats the key: %+v", name, p)
		}
	}
	if txns := r.Txns(bucketOf(1, "secret")); len(txns) != 0 {
		t.Errorf("refused checks recorded %+v", txns)
	}
	if log := r.log.String(); strings.Contains(log, "secret") {
		t.Error("the log repeats a key")
	}
}

func TestContentTypeMustBePlainJSON(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for value, accepted := range map[string]bool{
		"application/json":                           true,
		"application/json; charset=utf-8":            true,
		`Application/JSON; charset="utf-8"`:          true,
		"application/json; charset=utf-16":           false,
		"application/json; version=2":                false,
		"application/json; charset=utf-8; version=2": false,
		"application/json, application/json":         false,
		"application/problem+json":                   false,
		"text/plain":                                 false,
		"application/x-www-form-urlencoded":          false,
		";":                                          false,
		"":                                           false,
	} {
		var headers []string
		if value != "" {
			headers = []string{"Content-Type", value}
		}
		got := r.ask(t, http.MethodPost, "/v1/check", bucketJSON(1, "key of "+value), headers...)
		if accepted {
			got.decision(t)
			continue
		}
		if p := got.refused(t, http.StatusUnsupportedMediaType, "unsupported_media_type"); !strings.Contains(
			p.Detail, "application/json") {
			t.Errorf("%q: detail does not say what to do: %s", value, p.Detail)
		}
	}
	for _, second := range [][]string{ // lines of a header that come after a good one
		{"Content-Encoding", "gzip"},
		{"Content-Encoding", "identity", "Content-Encoding", "gzip"},
		{"Content-Type", "text/plain"},
		{"Content-Type", "application/json"},
		{"Content-Encoding", "", "Content-Encoding", "identity", "Content-Encoding", "gzip"},
	} {
		r.post(t, "/v1/check", bucketJSON(1, "x"), second...).refused(t, http.StatusUnsupportedMediaType,
			"unsupported_media_type")
	}
	r.post(t, "/v1/check", bucketJSON(1, "x"), "Content-Encoding", "identity").decision(t)
}

func TestBodyMayBeOneMebibyteAtMost(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	padded := func(size int) string {
		body := bucketJSON(1, "alice")
		return body + strings.Repeat(" ", size-len(body))
	}
	r.post(t, "/v1/check", padded(maxBody)).decision(t)
	r.post(t, "/v1/check", padded(maxBody+1)).refused(t, http.StatusRequestEntityTooLarge, "payload_too_large")
	r.post(t, "/v1/checks", padded(3*maxBody)).refused(t, http.StatusRequestEntityTooLarge, "payload_too_large")

	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 1 {
		t.Errorf("recorded %d txns, want that of the body of 1 MiB", len(txns))
	}
}
