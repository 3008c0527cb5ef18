package bag

// Bag holds weights.
type Bag struct{ weights []int }

// New returns an empty bag.
func New() *Bag { return &Bag{} }

// Put puts something in, and returns what all is together.
func (b *Bag) Put(weight int) int {
	b.weights = append(b.weights, weight)
	return b.sum()
}

func (b *Bag) sum() int {
	sum := 0
	for _, weight := range b.weights {
		sum += weight
	}
	return sum
}
