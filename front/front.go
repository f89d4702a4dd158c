// Package front owns the needs of every protocol before and after its question: who calls, whether he may,
// the reason of a refusal, and the log of faults. It must not know any protocol, SQL, or how a check is
// decided.
package front
