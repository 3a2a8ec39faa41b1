/**
 * The version of this library, as in package.json: a constant, because a bundler would lose a file that is read at run
 * time.
 */
export const VERSION = '0.1.0'
