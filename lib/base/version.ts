/** The version of this library, as in package.json: a constant, as a file read at run time would be lost to a bundler. */
export const VERSION = '0.1.0'
