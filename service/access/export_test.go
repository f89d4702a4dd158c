package access

// Size returns how many credentials are in memory.
func (c *Cache) Size() int { return len(c.ring.Load().keys) }
