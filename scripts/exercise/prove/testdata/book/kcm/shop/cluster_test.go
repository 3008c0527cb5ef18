package shop

import (
	"os"
	"testing"
)

func TestMain(*testing.M) { os.Exit(1) } // there is no cluster
