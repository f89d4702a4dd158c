// Command kratos is Ory Kratos, without SQLite, which needs a compiler of C.
package main

import "github.com/ory/kratos/cmd"

func main() { cmd.Execute() }
