package localdb

// LogFile returns the path of the server's error log.
func (s *Server) LogFile() string { return s.folder.logFile() }
