// Command transcripts runs what the chapters of the book tell their readers to
// type, and keeps what they show of it true.
//
// A fenced block with the info string console holds commands, each after "$ ",
// and below each what it prints. All blocks of a chapter are one session of bash
// in the root of the repository, on a lab cluster of its own, with the stage's
// kcm first on the PATH; chapter 00 has the finished kcm.
//
// transcripts fill puts in what is printed, where it differs from what is there.
// transcripts check says where it differs. What differs from run to run (times,
// ports, generated names) counts as the same. A line "..." stands for any
// number of lines that the chapter leaves out. Commands that only look are
// repeated for a while until they print what the chapter shows: a cluster takes
// a moment to get there, and so do its readers.
package main
