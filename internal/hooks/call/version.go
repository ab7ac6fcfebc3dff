package call

// Version is another one than before when the program of an exec hook has changed. "": it is a webhook, of which only
// the next answer says so.
func (c *Caller) Version() string {
	if p, ok := c.hook.(interface{ version() string }); ok {
		return p.version()
	}
	return ""
}
