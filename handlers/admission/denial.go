package admission

import "fmt"

// Denial is the line of text for a user whose attempt is blocked, with the whole seconds until the next one. It is the
// same for all users.
func Denial(seconds int64) []byte {
	return fmt.Appendf(nil, "Too many attempts. Try again in %d seconds.\n", seconds)
}
