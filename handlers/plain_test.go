package handlers

import (
	"reflect"
	"strings"
	"testing"

	"velocityd/service"
)

func TestPlainTextIsReadAsTheDecoderReadsItOrLeftToIt(t *testing.T) {
	t.Parallel()
	const bucket = `{"zone_id":1,"bucket_key":"a"}`
	alice := service.Check{Buckets: []service.Bucket{bucketOf(1, "alice")}}
	for body, want := range map[string]*question{
		`{"zone_id":1,"bucket_key":"alice"}`:                   {check: alice},
		" {\n\"bucket_key\" :\t\"alice\" , \"zone_id\": 1\r} ": {check: alice},
		`{"zone_id":1,"bucket_key":"alice","attempt_id":"7f"}`: {check: service.Check{Buckets: alice.Buckets, AttemptID: "7f"}},
		`{"buckets":[{"zone_id":1,"bucket_key":"alice"}]}`:     {check: alice, listed: true},
		`{"zone_id":0,"bucket_key":""}`:                        {check: service.Check{Buckets: []service.Bucket{bucketOf(0, "")}}},
		`{"buckets":[` + bucket + `, {"bucket_key":"é","zone_id":20}]}`: {
			check: service.Check{Buckets: []service.Bucket{bucketOf(1, "a"), bucketOf(20, "é")}}, listed: true,
		},

		``: nil, `{}`: nil, `[]`: nil, `null`: nil, `{`: nil, `{"zone_id":1}`: nil, `{"bucket_key":"a"}`: nil, `{"buckets":[]}`: nil,
		`{"zone_id":1,"bucket_key":"a"`: nil, `{"zone_id":1,"bucket_key":"a`: nil, bucket + "x": nil, bucket + bucket: nil,
		`{"zone_id":1,"bucket_key":"a",}`: nil, `{"zone_id":1 "bucket_key":"a"}`: nil, `{"zone_id" 1,"bucket_key":"a"}`: nil,
		`{"zone_id":01,"bucket_key":"a"}`: nil, `{"zone_id":-1,"bucket_key":"a"}`: nil, `{"zone_id":1.0,"bucket_key":"a"}`: nil,
		`{"zone_id":1e0,"bucket_key":"a"}`: nil, `{"zone_id":9223372036854775808,"bucket_key":"a"}`: nil, `{"zone_id":"1","bucket_key":"a"}`: nil,
		`{"zone_id":1,"bucket_key":"\u0061"}`: nil, "{\"zone_id\":1,\"bucket_key\":\"a\n\"}": nil, "{\"zone_id\":1,\"bucket_key\":\"\xff\"}": nil,
		`{"zone_id":1,"zone_id":1,"bucket_key":"a"}`: nil, `{"zone_id":1,"bucket_key":"a","bucket_key":"a"}`: nil,
		`{"zone_id":1,"bucket_key":"a","attempt_id":"b","attempt_id":"b"}`: nil, `{"zone_id":1,"bucket_key":"a","attempt_id":""}`: nil,
		`{"zone_id":1,"bucket_key":"a","x":1}`: nil, `{"ZONE_ID":1,"bucket_key":"a"}`: nil, `{"zone_id":1,"bucket_key":null}`: nil,
		`{"zone_id":1,"buckets":[` + bucket + `]}`: nil, `{"buckets":[` + bucket + `],"buckets":[` + bucket + `]}`: nil,
		`{"buckets":[` + bucket + `,]}`: nil, `{"buckets":[` + bucket + bucket + `]}`: nil,
		`{"buckets":[` + strings.Repeat(bucket+",", service.MaxBuckets) + bucket + `]}`: nil,
	} {
		got, ok := plainQuestion([]byte(body))
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
			t.Errorf("%s: read %+v, %v", body, got, ok)
		}
		several, ok := plainQuestions([]byte(`{"checks":[` + bucket + `,` + body + `]}`))
		if ok != (want != nil) || ok && !reflect.DeepEqual(several[1], *want) {
			t.Errorf("%s in a list: read %+v, %v", body, several, ok)
		}
	}
	for _, body := range []string{
		`{"checks":[]}`, `{"checks":[` + bucket + `],"checks":[` + bucket + `]}`, `{"checks":[` + bucket + `],"x":1}`,
		`{"checks":[` + strings.Repeat(bucket+",", service.MaxChecks) + bucket + `]}`,
	} {
		if got, ok := plainQuestions([]byte(body)); ok {
			t.Errorf("%.80s: read %+v", body, got)
		}
	}
}
