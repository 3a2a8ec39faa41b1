// With `node --import`, lets a program that imports `express` have version 4 instead of 5.

import { register } from 'node:module'

const hooks = `export const resolve = (specifier, context, next) =>
  next(specifier === 'express' ? 'express4' : specifier, context)`

register(`data:text/javascript,${encodeURIComponent(hooks)}`)
