// Package token has the commands about the credentials of callers.
package token

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db"
	"velocityd/internal/files"
	"velocityd/service"
	"velocityd/service/access"
)

// Command is token with its commands.
type Command struct {
	Create createCmd `cmd:"" help:"Make a token, or register a client certificate."`
	List   listCmd   `cmd:"" help:"List tokens and client certificates, with scopes and last use."`
	Revoke revokeCmd `cmd:"" help:"End a token or client certificate for good."`
}

func (Command) Help() string {
	return `Callers of the HTTP interface prove their identity by a token, or by a client certificate whose subject is
registered here. Both are rows of access_token. Use the account of the schema's owner. zone_audit records changes
under the token's name.

Instances know a new token after about a second, and refuse a revoked one within five.

Example:

  velocityd token create auth-server --scope check,report >token`
}

type createCmd struct {
	Name              string         `arg:"" help:"Name of the caller, such as auth-server: a letter, and then letters, digits or any of - . _ @"`
	Scope             []access.Scope `env:"-" required:"" xor:"scopes" sep:"," enum:"check,report,peek,release,zones,overrides,history,metrics,admin" placeholder:"SCOPE" help:"What the caller may do: check, report, peek, release, zones, overrides, history, metrics, or admin, which is everything. Several are separated by commas."`
	Preset            access.Preset  `env:"-" required:"" xor:"scopes" enum:"analyst,helpdesk,dba,admin" placeholder:"PRESET" help:"The scopes of a kind of person, in place of --scope: analyst (peek, history, metrics), helpdesk (the same and release), dba (the same, zones and overrides), or admin. With --zone, without metrics."`
	Zone              []int64        `env:"-" sep:"," placeholder:"N" help:"Zones in which the caller may do it. Several are separated by commas. Left out: all zones."`
	Expires           string         `env:"-" placeholder:"WHEN" help:"When the token ends: a length from now by the database's clock (90d), a date (2026-12-31, its first instant in UTC), or a time (2026-12-31T23:59:59Z). Left out: never."`
	ClientCert        string         `name:"client-cert" env:"-" xor:"certificate" placeholder:"FILE" help:"Make no token, but know the caller by client certificates with the subject of the one in this file, which is PEM."`
	ClientSubject     string         `name:"client-subject" env:"-" xor:"certificate" placeholder:"SUBJECT" help:"The same with the subject itself, as this command prints it for a file: CN=auth-1,O=Example."`
	Out               string         `env:"-" placeholder:"FILE" help:"Write the token to this new file, which only you can read, and not to standard output. If the file is there already, nothing is made."`
	OutSecret         string         `name:"out-secret" env:"-" placeholder:"NAME" help:"In a pod of Kubernetes: write the token into the key token of this Secret, which has to be there, and not to standard output. If it holds a token already, none is made."`
	ask.DatabaseFlags `embed:""`
}

func (createCmd) Help() string {
	return `The token is printed once, alone on standard output. The database keeps its SHA-256 only: a token that is
lost must be replaced.

With --out it goes to a file, and with --out-secret to a Secret. A second run then makes no token, so the command may
be a step of every start. A token in the Secret that the database never had is added to it; one that was revoked stays
so.

To replace a token, make a second one of the same name, give it to the caller, and revoke the first. Two may be live
at a time.

A client certificate is known by its whole subject, so certificates that are renewed with the same subject need no new
registration.

Examples:

  velocityd token create auth-server --scope check,report --expires 365d
  velocityd token create ann --preset helpdesk --zone 1
  velocityd token create auth-1 --scope check,report --client-cert auth-1.pem`
}

// Run makes the credential. A token is printed to stdout, and its row to stderr.
func (c *createCmd) Run(ctx context.Context, p *shell.Process) error {
	scopes := append(distinct(c.Scope), c.Preset.Scopes(c.Zone)...)
	caller := access.Caller{Name: c.Name, Scopes: scopes, Zones: distinct(c.Zone)}
	token := access.NewToken()
	wanted := access.NewTokenCredential(token, caller)
	subject, err := c.subject()
	if err != nil {
		return err
	}
	if subject != "" {
		wanted = access.NewCertificateCredential(subject, caller)
	}
	if err := wanted.Validate(); err != nil {
		return shell.UsageError{Err: err}
	}
	if _, err := shell.ParseExpiry(c.Expires, time.Now()); err != nil {
		return err
	}
	var staged string
	switch {
	case c.OutSecret != "":
		if token, err = c.keepInSecret(ctx, p, token, subject); err != nil {
			return err
		}
		wanted = access.NewTokenCredential(token, caller)
	case c.Out != "":
		if subject != "" {
			return shell.Usagef("--out is for a token, and a certificate has none: leave it out")
		}
		if _, err := os.Lstat(c.Out); err == nil {
			fmt.Fprintf(p.Stderr, "%s is there already: no token was made\n", c.Out)
			return nil
		}
		if staged, err = stageToken(c.Out, token); err != nil {
			return err
		}
		defer func() { _ = os.Remove(staged) }() // unless it has its name by then
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	now, err := store.Records.Now(ctx)
	if err != nil {
		return err
	}
	if wanted.ExpiresAt.Time, err = shell.ParseExpiry(c.Expires, now); err != nil {
		return err
	}
	if err := warnOfNoZone(ctx, p.Stderr, store, wanted.Zones); err != nil {
		return err
	}
	if isKnown, err := c.isKnown(ctx, p, store, wanted); isKnown || err != nil {
		return err
	}
	made, err := store.Records.AddCredential(ctx, wanted, p.Principal)
	if err != nil {
		return err
	}
	printCredentials(p.Stderr, now, []access.Credential{made})
	switch {
	case made.Kind == access.KindCertificate, c.OutSecret != "":
		return nil
	case staged != "":
		err = os.Rename(staged, c.Out)
	default:
		fmt.Fprintln(p.Stderr, "The token, which is not shown again:")
		_, err = fmt.Fprintln(p.Stdout, token.Reveal())
	}
	if err != nil {
		return fmt.Errorf("print the token: %w; revoke it by 'velocityd token revoke %d'", err, made.ID)
	}
	return nil
}

// keepInSecret writes a token into the Secret, unless it holds one, and returns the one that it holds then.
func (c *createCmd) keepInSecret(
	ctx context.Context, p *shell.Process, token access.Token, subject string,
) (access.Token, error) {
	if subject != "" || c.Out != "" {
		return token, shell.Usagef("--out-secret is for a token, and in place of --out: leave one out")
	}
	secret, err := openClusterSecret(p.LookupEnv, podAccount, c.OutSecret)
	if err != nil {
		return token, err
	}
	return secret.keep(ctx, token)
}

// isKnown says, to the user too, that the token of the Secret was made before. It may have been revoked since.
func (c *createCmd) isKnown(
	ctx context.Context, p *shell.Process, store *db.Store, wanted access.Credential,
) (bool, error) {
	if c.OutSecret == "" {
		return false, nil
	}
	known, _, err := store.Records.Credentials(ctx)
	if err != nil || !slices.ContainsFunc(known, func(k access.Credential) bool { return k.Digest == wanted.Digest }) {
		return false, err
	}
	fmt.Fprintf(p.Stderr, "the Secret %s holds a token already: none was made\n", c.OutSecret)
	return true, nil
}

// stageToken writes a token beside the file that it is for, before the token is of any use, and returns that file's
// name: a folder that takes no file then leaves no live token without an owner.
func stageToken(path string, token access.Token) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	_, err = fmt.Fprintln(file, token.Reveal())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("--out: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// subject returns the subject of the certificates by which the caller is to be known, or "".
func (c *createCmd) subject() (string, error) {
	if c.ClientCert == "" {
		return c.ClientSubject, nil
	}
	text, err := files.Read(c.ClientCert, files.LongLimit)
	if err != nil {
		return "", shell.Usagef("--client-cert: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return "", shell.Usagef("--client-cert %s: its first block is no CERTIFICATE in PEM", c.ClientCert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", shell.Usagef("--client-cert %s: %w", c.ClientCert, err)
	}
	subject := access.CertificateSubject(cert)
	if subject == "" {
		return "", shell.Usagef("--client-cert %s: the certificate has no subject to be known by", c.ClientCert)
	}
	return subject, nil
}

// warnOfNoZone names the zones that do not exist. They may be made later.
func warnOfNoZone(ctx context.Context, w io.Writer, store *db.Store, ids []int64) error {
	for _, id := range ids {
		_, err := store.Records.Zone(ctx, id)
		switch {
		case errors.Is(err, service.ErrNotFound):
			fmt.Fprintf(w, "There is no zone %d yet.\n", id)
		case err != nil:
			return err
		}
	}
	return nil
}

// distinct returns the values of a list in order, each once.
func distinct[T access.Scope | int64](list []T) []T {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

type listCmd struct {
	All               bool `env:"-" help:"List revoked and expired ones, too."`
	ask.DatabaseFlags `embed:""`
}

// Run prints the credentials that hold, or all.
func (c *listCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	list, now, err := store.Records.Credentials(ctx)
	if err != nil {
		return err
	}
	if !c.All {
		list = slices.DeleteFunc(list, func(c access.Credential) bool { return !c.IsLive(now) })
	}
	if len(list) == 0 {
		fmt.Fprintln(p.Stdout, "no tokens; 'velocityd token create' makes one")
		return nil
	}
	printCredentials(p.Stdout, now, list)
	return nil
}

type revokeCmd struct {
	Token             string `arg:"" name:"id-or-name" help:"Its id, as token list shows it, or the name, if one token has it."`
	All               bool   `env:"-" help:"Revoke all live tokens of the name."`
	shell.YesFlag     `embed:""`
	ask.DatabaseFlags `embed:""`
	shell.ReasonFlag  `embed:""`
}

func (revokeCmd) Help() string {
	return `Asks before it ends the last live token of a name: the caller is then refused within five seconds.

Example:

  velocityd token revoke 2`
}

// Run revokes the credential, or all of a name, and prints them.
func (c *revokeCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	live, _, err := store.Records.LiveCredentials(ctx)
	if err != nil {
		return err
	}
	ids, err := c.find(live)
	if err != nil {
		return err
	}
	if name := lastOf(live, ids); name != "" {
		question := fmt.Sprintf(
			"%s has no other live token or certificate, and would be refused within five seconds. Revoke it?", name)
		if err := c.Confirm(ctx, p, question); err != nil {
			return err
		}
	}
	var revoked []access.Credential
	for _, id := range ids {
		ended, err := store.Records.RevokeCredential(ctx, id, p.Principal)
		if err != nil {
			return err
		}
		revoked = append(revoked, ended)
	}
	printCredentials(p.Stdout, time.Now(), revoked)
	return nil
}

// find returns the ids of the credentials that are named. A number is an id: no name
// begins with a digit.
func (c *revokeCmd) find(live []access.Credential) ([]uint64, error) {
	if id, err := strconv.ParseUint(c.Token, 10, 64); err == nil {
		return []uint64{id}, nil
	}
	var ids []uint64
	for _, credential := range live {
		if credential.Name == c.Token {
			ids = append(ids, credential.ID)
		}
	}
	switch {
	case len(ids) == 0:
		return nil, fmt.Errorf("%w: no live token has this name ('velocityd token list --all' shows all)",
			service.ErrNotFound)
	case len(ids) > 1 && !c.All:
		return nil, shell.UsageError{
			Err: errors.New("several live tokens have this name: name one by its id " + fmt.Sprint(ids) +
				", or revoke all with --all"),
		}
	}
	return ids, nil
}

// lastOf returns the name of which no live credential is left when those with these ids, which are of
// one name, are revoked; or "" if one is left, or none of them is live.
func lastOf(live []access.Credential, ids []uint64) string {
	left := map[string]int{}
	ended := ""
	for _, credential := range live {
		left[credential.Name]++
		if slices.Contains(ids, credential.ID) {
			left[credential.Name]--
			ended = credential.Name
		}
	}
	if left[ended] > 0 {
		return ""
	}
	return ended
}

func printCredentials(w io.Writer, now time.Time, list []access.Credential) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  id\tname\ttoken or subject\tscopes\tzones\texpires\tlast used\tcreated\tby\trevoked")
	for _, c := range list {
		scopes, zones := strings.Join(access.ScopeNames(c.Scopes), ","), cmp.Or(c.Caller().ZoneList(), "all")
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, c.Name, markOf(c), scopes, zones,
			shell.Expiry(c.ExpiresAt.Time, now),
			shell.InstantOr("never", c.LastUsedAt.Time), shell.InstantOr("", c.CreatedAt.Time), shell.Printable(c.CreatedBy),
			revocationOf(c))
	}
	_ = table.Flush() // run tells of it
}

// markOf returns the text by which a person tells the credential from others.
func markOf(c access.Credential) string {
	if c.Kind == access.KindCertificate {
		return shell.Printable(c.Subject)
	}
	return c.Shown + "..."
}

func revocationOf(c access.Credential) string {
	if c.RevokedAt.IsZero() {
		return "no"
	}
	return shell.InstantOr("", c.RevokedAt.Time) + " by " + shell.Printable(c.RevokedBy)
}
