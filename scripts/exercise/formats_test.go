package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var ada = &graded{Name: "ada", Chapter: 6, Score: 1, Of: 2, Points: []point{
	{Exercise: "decide", Sentence: "too few pods are made up for", Holds: true},
	{Exercise: "decide", Sentence: "too many pods are deleted", Said: "expected <delete 1> & seen nothing"},
}}

func written(t *testing.T, format string) []byte {
	t.Helper()
	write, err := formatOf(format)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, write(&out, []*graded{ada}))
	return out.Bytes()
}

func TestTheTableHasThePointsOfEachExercise(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "ada  1 of 2  decide 1/2\n", string(written(t, "")))
}

func TestJSONHasAPointForEachBehaviour(t *testing.T) {
	t.Parallel()
	var all []*graded
	require.NoError(t, json.Unmarshal(written(t, "json"), &all))
	assert.Equal(t, []*graded{ada}, all)
}

func TestJUnitCountsFailuresAndSaysWhatWasSeen(t *testing.T) {
	t.Parallel()
	var report struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Failure string `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(written(t, "junit"), &report))
	require.Len(t, report.Suites, 1)
	suite := report.Suites[0]
	assert.Equal(t, []int{2, 1}, []int{suite.Tests, suite.Failures})
	assert.Empty(t, suite.Cases[0].Failure)
	assert.Equal(t, "too many pods are deleted", suite.Cases[1].Name)
	assert.Equal(t, ada.Points[1].Said, suite.Cases[1].Failure)
}

func TestWhatOneSubmissionGetsAddsUpInEachSystem(t *testing.T) {
	t.Parallel()
	var gradescope struct {
		Score float64
		Tests []struct {
			Score, MaxScore float64
			Status          string
		}
	}
	require.NoError(t, json.Unmarshal(written(t, "gradescope"), &gradescope))
	assert.Equal(t, 1.0, gradescope.Score)
	assert.Equal(t, "passed", gradescope.Tests[0].Status)
	assert.Equal(t, "failed", gradescope.Tests[1].Status)

	var classroom struct {
		Schema   string
		Score    int
		MaxScore int `json:"max-score"`
		Tests    []struct {
			Name   string `json:"test-name"`
			Passed bool
			Score  int
		}
	}
	require.NoError(t, json.Unmarshal(written(t, "classroom50"), &classroom))
	assert.Equal(t, "classroom50/result/v1", classroom.Schema)
	assert.Equal(t, []int{1, 2}, []int{classroom.Score, classroom.MaxScore})
	assert.True(t, classroom.Tests[0].Passed)
	assert.False(t, classroom.Tests[1].Passed)
}

func TestAFormatThatThereIsNotIsNamedWithThoseThatThereAre(t *testing.T) {
	t.Parallel()
	_, err := formatOf("pdf")
	assert.EqualError(t, err,
		`FORMAT is "pdf": set it to json, junit, gradescope or classroom50, or to nothing for a table`)
}

func TestAWorkspaceIsOneSubmissionAndADirectoryHasOneInEachFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"ada/.book", "bob/kcm", ".git", "empty"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
	all, err := submissionsIn(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "ada"), filepath.Join(dir, "bob"), filepath.Join(dir, "empty")}, all)
	one, err := submissionsIn(filepath.Join(dir, "bob"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, "bob")}, one)
	_, err = submissionsIn(filepath.Join(dir, "empty"))
	assert.ErrorContains(t, err, "there is no workspace in")
}
