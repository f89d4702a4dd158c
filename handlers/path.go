package handlers

import (
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

// with returns the handler of a route whose path names something, such as a zone: handle gets it.
func with[T any](named func(*exchange) (T, error), handle func(*exchange, T) error) func(*exchange) error {
	return func(x *exchange) error {
		thing, err := named(x)
		if err != nil {
			return err
		}
		return handle(x, thing)
	}
}

// pathPart returns a parameter of the path, decoded. If it is empty, the path has no
// route, and the error is api.ErrNoRoute.
func pathPart(x *exchange, name string) (string, error) {
	part := x.Param(name)
	if strings.Contains(part, "/") {
		return "", api.ErrNoRoute // Echo's last parameter takes all that is left of the path
	}
	if x.Request().URL.RawPath != "" {
		// Echo has matched the encoded path. If RawPath is empty, it has matched the
		// decoded one.
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return "", problem.Invalid("The path is not percent-encoded correctly.")
		}
		part = decoded
	}
	if part == "" {
		return "", api.ErrNoRoute
	}
	return part, nil
}

// pathID returns an id in the path, which must be 1 to most, in decimal,
// without sign or leading zero.
func pathID(x *exchange, name string, most uint64) (uint64, error) {
	part, err := pathPart(x, name)
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(part, 10, 64)
	if err != nil || id < 1 || id > most || part[0] == '0' {
		return 0, problem.Invalid(fmt.Sprintf("The %s in the path must be a whole number, 1 to %d.", name, most))
	}
	return id, nil
}

// pathZone returns the zone's id in the path, and adds it to the log line. The error
// wraps access.ErrMissingScope if the caller's scopes do not hold in the zone.
func pathZone(x *exchange) (int64, error) {
	id, err := pathID(x, "id", service.MaxZoneID)
	if err != nil {
		return 0, err
	}
	x.attrs = append(x.attrs, slog.Any("zone_ids", []int64{int64(id)}))
	return int64(id), x.caller.MayIn(int64(id))
}

// pathTxn returns the txn's id in the path, and adds it to the log line.
func pathTxn(x *exchange) (uint64, error) {
	id, err := pathID(x, "id", math.MaxUint64)
	if err != nil {
		return 0, err
	}
	x.attrs = append(x.attrs, slog.String("txn_id", strconv.FormatUint(id, 10)))
	return id, nil
}

// pathAttempt returns the attempt id in the path. It is the secret of its caller, so no log has it.
func pathAttempt(x *exchange) (string, error) {
	id, err := pathPart(x, "id")
	if err != nil {
		return "", err
	}
	if service.ValidateAttemptID(id) != nil {
		return "",
			problem.Invalid(fmt.Sprintf("The id in the path must be 1 to %d printable ASCII characters, percent-encoded.",
				service.MaxAttemptIDLength))
	}
	return id, nil
}

// pathOverride returns an override with both ids in the path, and adds them to the log
// line.
func pathOverride(x *exchange) (which service.Override, err error) {
	if which.ZoneID, err = pathZone(x); err != nil {
		return which, err
	}
	if which.ID, err = pathID(x, "override_id", math.MaxUint64); err != nil {
		return which, err
	}
	x.attrs = append(x.attrs, slog.String("override_id", strconv.FormatUint(which.ID, 10)))
	return which, nil
}

func pathWebhookID(x *exchange) (uint64, error) { return pathID(x, "id", math.MaxUint64) }
