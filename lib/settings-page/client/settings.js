// Makes the page better where JavaScript runs; everything works without it.
export {}
