package handlers

import (
	"context"
	"fmt"
	"net/http"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

type releaseRequest struct {
	Reason *string `json:"reason"`
}

// peek answers GET /v1/zones/{id}/buckets/{key}.
func (s *server) peek(x *exchange, given service.Bucket) error {
	return s.lookUp(x, func(ctx context.Context) error {
		bucket, err := s.normalBucket(ctx, given)
		if err != nil {
			return err
		}
		return s.showBucket(ctx, x, bucket)
	})
}

// release answers POST /v1/zones/{id}/buckets/{key}/release with the released
// bucket.
func (s *server) release(x *exchange, bucket service.Bucket) error {
	var request releaseRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	if err := request.validate(); err != nil {
		return err
	}
	if err := s.lookUp(x, func(ctx context.Context) (err error) {
		bucket, err = s.normalBucket(ctx, bucket)
		return err
	}); err != nil {
		return err
	}
	if err := s.changeAs(x, func(ctx context.Context, principal string) error {
		return s.Writer.Release(ctx, bucket, principal, *request.Reason)
	}); err != nil {
		return problem.ReplaceTexts(err, map[error]string{service.ErrNotFound: noZone(bucket.ZoneID)})
	}
	return s.lookUp(x, func(ctx context.Context) error {
		if err := s.showBucket(ctx, x, bucket); err != nil {
			return fmt.Errorf("%w: released, but not seen since: %w", service.ErrUndecided, err)
		}
		return nil
	})
}

func (r releaseRequest) validate() error {
	if r.Reason == nil {
		return problem.MissingField("reason")
	}
	return problem.PointAtField(service.ValidateReason(*r.Reason))
}

// pathBucket returns the bucket that the path names. Its key is not normalised.
func pathBucket(x *exchange) (service.Bucket, error) {
	id, err := pathZone(x)
	if err != nil {
		return service.Bucket{}, err
	}
	key, err := pathPart(x, "key")
	if err != nil {
		return service.Bucket{}, err
	}
	bucket := service.Bucket{ZoneID: id, Key: key}
	return bucket, bucket.Validate()
}

// normalBucket returns the bucket with its key normalised by the rule of its zone.
func (s *server) normalBucket(ctx context.Context, bucket service.Bucket) (service.Bucket, error) {
	zone, err := s.Reader.Zone(ctx, bucket.ZoneID)
	if err != nil {
		return bucket, problem.NotFound(err, noZone(bucket.ZoneID))
	}
	return zone.Keys.Bucket(bucket)
}

func (s *server) showBucket(ctx context.Context, x *exchange, bucket service.Bucket) error {
	seen, err := s.Reader.Peek(ctx, bucket)
	if err != nil {
		return problem.NotFound(err, noZone(bucket.ZoneID))
	}
	x.hideAttempts(seen.Txns, "")
	return x.respondJSON(http.StatusOK, api.MediaJSON, seen)
}
