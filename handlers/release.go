package handlers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
	"velocityd/service"
)

const pathReleases = "/v1/zones/:id/release"

// releasesRequest names several buckets of the zone in the path.
type releasesRequest struct {
	BucketKeys keyList `json:"bucket_keys"`
	Reason     *string `json:"reason"`
}

type keyList []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *keyList) UnmarshalJSONFrom(in *jsontext.Decoder) (err error) {
	*l, err = strictjson.ReadList[string](in, "bucket_keys", service.MaxReleases)
	return err
}

// releaseMany answers POST /v1/zones/{id}/release: each bucket by itself.
func (s *server) releaseMany(x *exchange, id int64) error {
	var request releasesRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	if len(request.BucketKeys) == 0 {
		return strictjson.WrongLength("bucket_keys", service.MaxReleases)
	}
	if err := (releaseRequest{request.Reason}).validate(); err != nil {
		return err
	}
	if err := x.takeMemory(resultBytes * int64(len(request.BucketKeys))); err != nil {
		return err
	}
	var zone service.Zone
	if err := s.lookUp(x, func(ctx context.Context) (err error) {
		zone, err = s.Reader.Zone(ctx, id)
		return err
	}); err != nil {
		return problem.NotFound(err, noZone(id))
	}
	answer := api.Releases{Results: make([]api.Released, len(request.BucketKeys))}
	if err := s.changeAs(x, func(ctx context.Context, principal string) error {
		for i, key := range request.BucketKeys {
			bucket, err := zone.Keys.Bucket(service.Bucket{ZoneID: id, Key: key})
			if err != nil {
				err = problem.PointAtElement(err, fmt.Sprint("bucket_keys/", i))
			} else {
				err = s.releaseOne(ctx, bucket, principal, *request.Reason)
			}
			answer.Results[i] = x.released(bucket, err)
		}
		return nil
	}); err != nil {
		return err
	}
	x.attrs = append(x.attrs, slog.Int("releases", len(answer.Results)))
	return x.respondJSON(http.StatusOK, api.MediaJSON, answer)
}

// releaseOne releases one of several buckets, unless the time of all has passed.
func (s *server) releaseOne(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: no time is left for this bucket: %w", service.ErrBusy, err)
	}
	err := s.Writer.Release(ctx, bucket, principal, reason)
	return problem.ReplaceTexts(err, map[error]string{service.ErrNotFound: noZone(bucket.ZoneID)})
}

// released returns the answer for one of several buckets, and keeps a refusal for the log.
func (x *exchange) released(bucket service.Bucket, err error) api.Released {
	if err != nil {
		x.logged.RefusedReport = cmp.Or(x.logged.RefusedReport, err)
		p := problem.Of(err)
		return api.Released{Problem: &p}
	}
	return api.Released{BucketKey: bucket.Key}
}
