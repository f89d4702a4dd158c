package console

// now shows what goes on at this moment.
func (v *visit) now() error { return v.show("now", "Now", "Now", nil) }
