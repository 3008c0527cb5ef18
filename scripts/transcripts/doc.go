// Command transcripts runs what the chapters of the book tell their readers to
// type, and keeps what they show of it true.
//
// A fenced block with the info string console holds commands, each after "$ ",
// and below each what it prints. One with the info string sh holds commands, one
// a line, that set up what the chapter needs, a lab cluster and the stage, and
// have to succeed. All blocks of a chapter are one session of bash in the root of
// the repository, on a cluster that is not the one of make cluster.
//
// transcripts fill puts in what is printed, where it differs from what is there.
// transcripts check says where it differs. What differs from run to run (times,
// ports, generated names) counts as the same. A line "..." stands for any
// number of lines that the chapter leaves out. Commands that only look are
// repeated for a while until they print what the chapter shows: a cluster takes
// a moment to get there, and so do its readers.
package main
