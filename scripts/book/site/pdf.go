package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/pdfcpu/pdfcpu/pkg/api"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/types"
)

// hasBrowser tells whether the machine has a Chromium, under one name or another.
func hasBrowser() bool {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}

// patience is how long a machine that is busy may take for what takes another one a moment.
const patience = 5 * time.Minute

// startBrowser returns a context for tabs of a Chromium without a window, which ends with the function.
func startBrowser(ctx context.Context) (context.Context, func(), error) {
	allocator, end := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // Chromium refuses to run as root otherwise; it shows our own pages
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))...)
	ctx, _ = chromedp.NewContext(allocator)
	return ctx, end, chromedp.Do(ctx)
}

// PDF prints the book, which is in the directory as one page, to book.pdf beside it, on A4. It needs a Chromium.
//
// Chromium cannot say in a page on which sheet something stands (target-counter of CSS, which it does not have). It does
// say it in what it has printed. So the book is printed, its references get the numbers from that, and it is printed
// again, until they are right.
func PDF(ctx context.Context, dir string, progress io.Writer) error {
	ctx, end, err := startBrowser(ctx)
	defer end()
	if err != nil {
		return fmt.Errorf("start Chromium: %w", err)
	}
	from := filepath.Join(dir, "book.html")
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+from)); err != nil {
		return fmt.Errorf("open %s: %w", from, err)
	}
	numbers := map[string]int{}
	for range 6 {
		argument, err := json.Marshal(numbers)
		if err != nil {
			return err
		}
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](fmt.Sprintf("(%s)(%s)", numberReferences, argument))); err != nil {
			return fmt.Errorf("number the references of %s: %w", from, err)
		}
		fmt.Fprintln(progress, "printing the book")
		printed, err := chromedp.Call(ctx, page.PrintToPDF, a4())
		if err != nil {
			return fmt.Errorf("print %s: %w", from, err)
		}
		found, err := destinations(printed.Data)
		if err != nil {
			return fmt.Errorf("look up the pages of what is printed of %s: %w", from, err)
		}
		if maps.Equal(found, numbers) {
			return os.WriteFile(filepath.Join(dir, "book.pdf"), printed.Data, 0o644)
		}
		numbers = found
	}
	return fmt.Errorf("the numbers of pages in references of %s change with each print", from)
}

// numberReferences has each reference within the page say the number of the sheet that it leads to. The first time there
// are none, and it says one that is as wide as most.
const numberReferences = `numbers => {
	for (const a of document.querySelectorAll('.whole a[href^="#"]'))
		a.dataset.sheet = numbers[decodeURIComponent(a.hash.slice(1))] ?? "000";
}`

func a4() page.PrintToPDFParams {
	yes := true
	return page.PrintToPDFParams{
		PaperWidth: 8.27, PaperHeight: 11.69, PreferCSSPageSize: &yes, PrintBackground: &yes,
		GenerateTaggedPDF: &yes, GenerateDocumentOutline: &yes,
	}
}

// destinations returns on which page of a PDF that Chromium has printed each anchor is that something leads to.
func destinations(pdf []byte) (map[string]int, error) {
	api.DisableConfigDir()
	doc, err := api.ReadContext(bytes.NewReader(pdf), model.NewDefaultConfiguration())
	if err != nil {
		return nil, err
	}
	if err := doc.EnsurePageCount(); err != nil {
		return nil, err
	}
	sheets := map[types.Integer]int{}
	for number := 1; number <= doc.PageCount; number++ {
		sheet, err := doc.PageDictIndRef(number)
		if err != nil {
			return nil, err
		}
		sheets[sheet.ObjectNumber] = number
	}
	catalog, err := doc.Catalog()
	if err != nil {
		return nil, err
	}
	anchors, err := doc.DereferenceDict(catalog["Dests"])
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for name, value := range anchors {
		if name, err = types.DecodeName(name); err != nil {
			return nil, err
		}
		where, err := doc.DereferenceArray(value)
		if err != nil {
			return nil, err
		}
		sheet, ok := where[0].(types.IndirectRef)
		if !ok || sheets[sheet.ObjectNumber] == 0 {
			return nil, fmt.Errorf("%s leads to no page", name)
		}
		found[name] = sheets[sheet.ObjectNumber]
	}
	return found, nil
}
