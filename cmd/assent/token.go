package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/assent-chat/assent/service"
)

var principalName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

func runToken(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	name, isNew := "", false
	if len(args) > 0 && args[0] == "new" {
		isNew = true
		if args = args[1:]; len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			name, args = args[0], args[1:]
		}
	}
	c, rest, err := loadConfig("token", args, getenv, stderr)
	if err != nil {
		return err
	}
	if isNew && name == "" && len(rest) == 1 {
		name, rest = rest[0], nil
	}
	switch {
	case len(rest) > 0:
		return usageError{fmt.Errorf("token takes no argument %q; say: assent token, or: assent token new NAME", rest[0])}
	case !isNew:
		secret, err := os.ReadFile(tokenFile(c))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no token in %s yet: start the server once, or name its folder with -data-dir", c.DataDir)
		}
		if err != nil {
			return fmt.Errorf("read the owner's token: %w", err)
		}
		_, err = fmt.Fprintln(stdout, strings.TrimSpace(string(secret)))
		return err
	case name == owner || !principalName.MatchString(name):
		return usageError{fmt.Errorf("%q cannot be a principal's name: letters, digits and . _ @ - only, at most 64, and not %q", name, owner)}
	}
	if _, err := os.Stat(tokenFile(c)); err != nil {
		return fmt.Errorf("there is no server's data in %s: start the server once, or name its folder with -data-dir", c.DataDir)
	}
	store, err := openStore(ctx, c, nil, false, c.logger(stderr))
	if err != nil {
		return err
	}
	secret := rand.Text()
	svc := service.New(service.Deps{Store: store}, service.Options{})
	if err := errors.Join(svc.AddToken(ctx, name, secret), store.Close()); err != nil {
		return fmt.Errorf("store the token: %w", err)
	}
	_, err = fmt.Fprintln(stdout, secret)
	return err
}

func tokenFile(c config) string { return filepath.Join(c.DataDir, "token") }

// ownToken makes the owner's token at the first start, and sees to it that
// this database knows it.
func ownToken(ctx context.Context, c config, svc *service.Service) error {
	secret, err := os.ReadFile(tokenFile(c))
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = makeSecret(c.DataDir, tokenFile(c), rand.Text())
	}
	if err != nil {
		return fmt.Errorf("the owner's token: %w", err)
	}
	text := strings.TrimSpace(string(secret))
	if len(text) < 20 {
		return fmt.Errorf("the owner's token in %s is too short to be safe; delete the file to have one made", tokenFile(c))
	}
	if err := svc.AddToken(ctx, owner, text); err != nil {
		return fmt.Errorf("store the owner's token: %w", err)
	}
	return nil
}
