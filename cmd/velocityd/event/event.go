// Package event reads events for people and log shippers at a shell: where they come from, and how they are shown. It
// must not know flags, HTTP, or SQL.
package event

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/feed"
)

// Source has events. Keys of its queries are as people write them. A *client.Client is one.
type Source interface {
	event.Store
	// FollowEvents yields events that are written from now on, or behind the query's Cursor, until ctx ends.
	FollowEvents(ctx context.Context, query event.Query) iter.Seq2[event.Event, error]
}

const (
	pageTimeout = 30 * time.Second
	followPause = time.Second
)

// Local is a Source over a database.
type Local struct {
	Store event.Store
	// RecordedKeys returns the keys under which a bucket is recorded that somebody names.
	RecordedKeys func(ctx context.Context, bucket service.Bucket) ([]string, error)
}

// Events implements event.Store.
func (l Local) Events(ctx context.Context, query event.Query) (event.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	query, err := l.recorded(ctx, query)
	if err != nil {
		return event.Page{}, err
	}
	return l.Store.Events(ctx, query)
}

// FollowEvents implements Source. The error of a database that is away is the last element.
func (l Local) FollowEvents(ctx context.Context, query event.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		query, err := l.recorded(ctx, query)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		for step, err := range feed.OfEvents(l.Store, followPause).Follow(ctx, query) {
			if err != nil {
				yield(event.Event{}, fmt.Errorf("%w; the last position was %d", err, step.Position))
				return
			}
			for _, e := range step.Items {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// recorded returns a query with the keys as they are recorded.
func (l Local) recorded(ctx context.Context, query event.Query) (event.Query, error) {
	if len(query.Keys) == 0 || len(query.Zones) != 1 { // Validate refuses keys without a zone
		return query, nil
	}
	var keys []string
	for _, key := range query.Keys {
		forms, err := l.RecordedKeys(ctx, service.Bucket{ZoneID: query.Zones[0], Key: key})
		if err != nil {
			return query, err
		}
		keys = append(keys, forms...)
	}
	query.Keys = keys
	return query, nil
}

// Write writes an event as a line of JSON.
func Write(to io.Writer, e event.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	_, err = to.Write(append(line, '\n'))
	return err
}
