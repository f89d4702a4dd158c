package service_test

import (
	"fmt"
	"strings"
	"testing"

	"velocityd/service"
)

func TestCheckValidateKnowsEveryLimit(t *testing.T) {
	t.Parallel()
	many := func(n int) (c service.Check) {
		for i := range n {
			c.Buckets = append(c.Buckets, at(1, fmt.Sprint("key-", i)))
		}
		return c
	}
	for _, test := range []struct {
		name  string
		check service.Check
		names string // the field that the error must name
	}{
		{"one bucket", many(1), ""},
		{"eight buckets", many(8), ""},
		{"one key in two zones", check(at(1, "secret"), at(2, "secret")), ""},
		{"keys that differ in case", check(at(1, "secret"), at(1, "Secret")), ""},
		{"keys that differ in a trailing space", check(at(1, "secret"), at(1, "secret ")), ""},
		{"no buckets", service.Check{}, "1 to 8 buckets, has 0"},
		{"nine buckets", many(9), "1 to 8 buckets, has 9"},
		{"a bad zone", check(at(1, "secret"), at(0, "secret")), "bucket 1: invalid: zone_id"},
		{"a bad key", check(at(1, "secret\n"), at(2, "secret")), "bucket 0: invalid: bucket_key"},
		{"with the longest attempt id", service.Check{Buckets: many(1).Buckets, AttemptID: strings.Repeat("x", 64)}, ""},
		{"with every character of one", service.Check{Buckets: many(1).Buckets, AttemptID: " !\"09AZaz~"}, ""},
		{
			"with one that is too long",
			service.Check{Buckets: many(1).Buckets, AttemptID: strings.Repeat("x", 65)},
			"attempt_id",
		},
		{"with a control character in it", service.Check{Buckets: many(1).Buckets, AttemptID: "secret\x1f"}, "attempt_id"},
		{"with DEL in it", service.Check{Buckets: many(1).Buckets, AttemptID: "secret\x7f"}, "attempt_id"},
		{"with more than ASCII in it", service.Check{Buckets: many(1).Buckets, AttemptID: "secreté"}, "attempt_id"},
		{"with one that is not UTF-8", service.Check{Buckets: many(1).Buckets, AttemptID: "secret\xff"}, "attempt_id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.check.Validate()
			wantInvalid(t, err, test.names)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q repeats a key", err)
			}
		})
	}
}
