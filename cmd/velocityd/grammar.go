package main

import (
	"cmp"
	"reflect"
	"strings"

	"velocityd/cmd/velocityd/completion"
	"velocityd/cmd/velocityd/replay"
	"velocityd/cmd/velocityd/token"
	"velocityd/cmd/velocityd/txn"
	"velocityd/cmd/velocityd/zone"
)

// cli is the grammar of the command line.
type cli struct {
	Serve    serveCmd               `cmd:"" help:"Answer checks over HTTP from your database."`
	Dev      devCmd                 `cmd:"" help:"Answer checks over HTTP from a private database that velocityd makes and runs."`
	Migrate  migrateCmd             `cmd:"" help:"Bring the database's schema up or down, or show its version."`
	Check    checkCmd               `cmd:"" help:"Ask whether one attempt may go ahead. It is recorded and counts like any other."`
	Outcome  outcomeCmd             `cmd:"" help:"Report how a login ended: success or failure."`
	Attempt  attemptCmd             `cmd:"" help:"Show one attempt by its attempt id: the answer and the outcome."`
	Txn      txn.Command            `cmd:"" help:"List, show, follow and export recorded attempts."`
	Events   eventsCmd              `cmd:"" help:"List and follow events: lockouts, releases, changes of zones, overrides and tokens."`
	Changes  changesCmd             `cmd:"" help:"List changes, releases, exports and erasures, with their authors."`
	Webhook  webhookCmd             `cmd:"" help:"Send events to receivers by HTTP: add, list and remove them, and send again."`
	Doctor   doctorCmd              `cmd:"" help:"Look whether the database is fit for the service, and say what to do."`
	Health   healthCmd              `cmd:"" help:"Ask a running service whether it is ready or alive."`
	Zone     zone.Command           `cmd:"" help:"List, change and lint zones."`
	Override zone.OverrideCommand   `cmd:"" help:"List and change exceptions from the limits of zones."`
	Bucket   bucketCmd              `cmd:"" help:"Look at one bucket, or release some."`
	Subject  subjectCmd             `cmd:"" help:"Export or erase all that is recorded of one key."`
	Audit    auditCmd               `cmd:"" help:"Prove from the recorded rows that the limits were kept."`
	Retain   retainCmd              `cmd:"" help:"Remove the rows that are no longer kept, and make partitions ahead."`
	Replay   replay.Command         `cmd:"" help:"Ask a check for every login attempt in an sshd log."`
	Gate     gateCmd                `cmd:"" help:"Look at a file of named gates, or try one of them."`
	Import   importCmd              `cmd:"" help:"Make zones and rules of another limiter's configuration."`
	Proxy    proxyCmd               `cmd:"" help:"Limit the log-ins of an application that cannot be changed, as a reverse proxy in front of it."`
	Pam      pamCmd                 `cmd:"" help:"Limit log-ins by PAM, such as those of sshd: for pam_exec."`
	Report   txn.ReportCommand      `cmd:"" help:"Show the story of a zone: attempts by hour, stopped keys, spraying; also as a page."`
	Backtest replay.BacktestCommand `cmd:"" help:"Replay the recorded attempts of a zone under other limits, and show the keys that would have been blocked."`
	Token    token.Command          `cmd:"" help:"Make, list and revoke the tokens of callers of the HTTP interface."`

	Completion completion.Command      `cmd:"" help:"Print a script that completes commands, flags and values in a shell."`
	HelpFor    helpCmd                 `cmd:"" name:"help" help:"Explain a command, as its --help does."`
	VersionNow versionCmd              `cmd:"" name:"version" help:"Print the version."`
	Complete   completion.WordsCommand `cmd:"" name:"__complete" hidden:"" help:"Print words for a completion script."`
	Version    versionFlag             `name:"version" env:"-" help:"Print the version and exit."`
}

// helpCmd makes help appear in the list of commands. run itself turns "help COMMAND"
// into "COMMAND --help".
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to explain, such as: zone set."`
}

// grammarOf returns the grammar of a command line that begins with word. It has the command of that name alone, because
// the parser of all of them takes many times as long to make. Without such a command, and for completion, it has all.
func grammarOf(word string) any {
	all := reflect.TypeFor[cli]()
	version, _ := all.FieldByName("Version")
	for i := range all.NumField() {
		field := all.Field(i)
		_, isCommand := field.Tag.Lookup("cmd")
		isNamed := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) == word
		if isCommand && isNamed && field.Type != reflect.TypeFor[completion.WordsCommand]() {
			return reflect.New(reflect.StructOf([]reflect.StructField{field, version})).Interface()
		}
	}
	return new(cli)
}
