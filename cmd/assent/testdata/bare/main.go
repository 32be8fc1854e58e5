// Command bare is the floor of the start benchmark: an HTTP server that opens
// an SQLite file, makes one table and answers.
package main

import (
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"

	_ "modernc.org/sqlite"
)

func main() {
	db, err := sql.Open("sqlite", "file:"+os.Args[1]+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		_, err = db.Exec(`CREATE TABLE IF NOT EXISTS t (id TEXT PRIMARY KEY) STRICT`)
	}
	ln, errListen := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || errListen != nil {
		fmt.Fprintln(os.Stderr, err, errListen)
		os.Exit(1)
	}
	fmt.Println("is ready on http://" + ln.Addr().String())
	_ = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var n int
		_ = db.QueryRow(`SELECT count(*) FROM t`).Scan(&n)
		fmt.Fprintln(w, n)
	}))
}
