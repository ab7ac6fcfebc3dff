module skiff/internal/tools/browser

go 1.26.0
