package handlers

import (
	"net/http"
	"strconv"
	"strings"

	"velocityd/api"
	"velocityd/service"
)

// matchOf reads If-Match and If-None-Match by RFC 9110. A tag that no revision can
// have is a failed precondition. A list of tags is invalid, and so is If-None-Match
// with anything but *.
func matchOf(header http.Header) (service.Match, error) {
	var match service.Match
	if given := header.Values("If-None-Match"); len(given) > 0 {
		if len(given) > 1 || strings.TrimSpace(given[0]) != "*" {
			return match, invalid("If-None-Match can only be *.")
		}
		match.Absent = true
	}
	given := header.Values("If-Match")
	if len(given) == 0 {
		return match, nil
	}
	tag := strings.TrimSpace(given[0])
	switch opaque, isTag := strongTag(tag); {
	case len(given) > 1 || !isTag && tag != "*":
		return match, invalid(`If-Match must be * or one ETag of the zone, such as "3".`)
	case tag == "*":
		match.Present = true
	default:
		revision, err := strconv.ParseUint(opaque, 10, 64)
		if err != nil || revision == 0 || api.EntityTag(revision) != tag {
			return match, &requestError{kind: service.ErrPrecondition, detail: staleDetail}
		}
		match.Revision = revision
	}
	return match, nil
}

// strongTag returns the text in the quotes of an entity tag. For a weak tag, which
// matches no zone, it returns "".
func strongTag(tag string) (opaque string, isTag bool) {
	strong := strings.TrimPrefix(tag, "W/")
	inner, left := strings.CutPrefix(strong, `"`)
	inner, right := strings.CutSuffix(inner, `"`)
	if !left || !right || strings.ContainsAny(inner, "\" \t") {
		return "", false
	}
	if strong != tag {
		return "", true
	}
	return inner, true
}

const staleDetail = "The zone is not as If-Match or If-None-Match expects it: it was changed, made or deleted meanwhile. " +
	"GET it and decide anew."
