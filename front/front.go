// Package front owns what every protocol needs before and after it asks: who calls, what he may do, why
// he is refused, and what the log is told of it. It must not know any protocol, SQL, or how a check is
// decided.
package front
