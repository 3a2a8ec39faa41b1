import * as v from 'valibot'
import * as field from '../base/fields.ts'

// Shared schemas

/** A money amount as a decimal string. The currency's number of decimal places is checked later. */
function money(which: string, pattern: RegExp): v.GenericSchema<string> {
  const requirement = `must be a decimal string ${which}, with at most 15 digits before the point`
  return v.pipe(
    v.string(requirement),
    v.check((text) => pattern.test(text), requirement),
  )
}

/** An amount greater than zero. */
export const MoneySchema: v.GenericSchema<string> = money(
  'above zero such as "1250.000"',
  /^(?=.*[1-9])\d{1,15}(\.\d{1,20})?$/,
)
/** A positive or negative amount, but not zero. */
export const SignedMoneySchema: v.GenericSchema<string> = money(
  'such as "1250.000" or "-1250.000"',
  /^-?(?=.*[1-9])\d{1,15}(\.\d{1,20})?$/,
)
/** An amount that can be zero. */
export const MoneyOrZeroSchema: v.GenericSchema<string> = money(
  'such as "1250.000"',
  /^\d{1,15}(\.\d{1,20})?$/,
)

/** An ISO 4217 code. */
export const CurrencySchema: v.GenericSchema<string> = v.pipe(
  v.string('must be a currency code of three capital letters'),
  v.regex(/^[A-Z]{3}$/, 'must be a currency code of three capital letters'),
)

/** The host's own document number. */
export const NumberSchema: v.GenericSchema<string> = field.text(1, 64)
/** A name or title. */
export const TitleSchema: v.GenericSchema<string> = field.text(1, 200)
