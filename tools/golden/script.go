package main

// gates is the file of gates that the service has.
const gates = `gates:
  login:
    buckets:
      - zone: 1
        key: {header: X-User}
    attempt: {header: X-Attempt}
`

// authLog is a log of sshd, and rateLimits a configuration of envoyproxy/ratelimit, for the commands that read such
// files.
const (
	authLog = `Nov 22 10:00:01 host sshd[100]: Failed password for root from 203.0.113.40 port 4431 ssh2
Nov 22 10:00:02 host sshd[101]: Failed password for root from 203.0.113.40 port 4432 ssh2
Nov 22 10:00:03 host sshd[102]: Accepted password for ann from 203.0.113.41 port 4433 ssh2
Nov 22 10:00:04 host cron[103]: nothing
`
	rateLimits = `domain: login
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5}
`
)

// files are those in the folder of the instance, by their names.
func files() map[string]string {
	return map[string]string{"gates.yaml": gates, "auth.log": authLog, "ratelimit.yaml": rateLimits}
}
