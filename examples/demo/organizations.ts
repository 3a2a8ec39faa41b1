// The two organizations of the demo and the names of their customers. All of them are made up. Addresses end with
// .example, and phone numbers are from unassigned ranges.

/** The settings from which an organization's data is generated. */
export interface Profile {
  readonly name: string
  readonly seed: number
  readonly clients: number
  /** The currency of most customers and that of the others. */
  readonly currency: Currency
  readonly foreignCurrency: Currency
  readonly phonePrefix: string
  readonly cities: readonly [string, ...string[]]
  readonly names: readonly [string, ...string[]]
  readonly trades: readonly [Trade, ...Trade[]]
  readonly services: readonly [string, ...string[]]
}

/** ISO 4217 code and number of decimals. */
export interface Currency {
  readonly code: string
  readonly decimals: number
}

/** The second part of a customer's name, and what such a business does. */
export interface Trade {
  readonly suffix: string
  readonly category: string
}

const TND: Currency = { code: 'TND', decimals: 3 }
const EUR: Currency = { code: 'EUR', decimals: 2 }

export const PROFILES: readonly Profile[] = [
  {
    name: 'Jasmin Digital',
    seed: 20_260_314,
    clients: 240,
    currency: TND,
    foreignCurrency: EUR,
    phonePrefix: '+216 71 000 ',
    cities: ['Tunis', 'Sfax', 'Sousse', 'Bizerte', 'Nabeul', 'Monastir', 'La Marsa', 'Gabès', 'Kairouan'],
    names: [
      'Alcyon',
      'Amandier',
      'Atlas',
      'Boussole',
      'Caravelle',
      'Corail',
      'Écume',
      'Figuier',
      'Grenadine',
      'Horizon',
      'Lanterne',
      'Mosaïque',
      'Nacre',
      'Olivier',
      'Palmier',
      'Zénith',
    ],
    trades: [
      { suffix: 'Ceramics', category: 'Manufacturing' },
      { suffix: 'Olive Oil', category: 'Food' },
      { suffix: 'Textiles', category: 'Manufacturing' },
      { suffix: 'Clinic', category: 'Health' },
      { suffix: 'Hotel', category: 'Hospitality' },
      { suffix: 'Logistics', category: 'Transport' },
      { suffix: 'Academy', category: 'Education' },
      { suffix: 'Dates', category: 'Food' },
      { suffix: 'Travel', category: 'Tourism' },
      { suffix: 'Immobilière', category: 'Real estate' },
      { suffix: 'Studio', category: 'Design' },
      { suffix: 'Pharma', category: 'Health' },
      { suffix: 'Solar', category: 'Energy' },
      { suffix: 'Auto', category: 'Retail' },
      { suffix: 'Légal', category: 'Professional services' },
    ],
    services: ['Website', 'Online shop', 'Booking system', 'Brand identity', 'Search campaign', 'Mobile app'],
  },
  {
    name: 'Atelier Méridien',
    seed: 20_260_721,
    clients: 110,
    currency: EUR,
    foreignCurrency: TND,
    phonePrefix: '+33 4 65 71 0',
    cities: ['Marseille', 'Lyon', 'Nice', 'Montpellier', 'Avignon', 'Grenoble', 'Toulon'],
    names: [
      'Belvédère',
      'Calanque',
      'Cigale',
      'Durance',
      'Garrigue',
      'Lavande',
      'Mistral',
      'Phocéa',
      'Romarin',
      'Ventoux',
    ],
    trades: [
      { suffix: 'Architectes', category: 'Professional services' },
      { suffix: 'Boulangerie', category: 'Food' },
      { suffix: 'Conseil', category: 'Professional services' },
      { suffix: 'Menuiserie', category: 'Construction' },
      { suffix: 'Optique', category: 'Retail' },
      { suffix: 'Paysages', category: 'Construction' },
      { suffix: 'Traiteur', category: 'Food' },
      { suffix: 'Vélos', category: 'Retail' },
      { suffix: 'Vignobles', category: 'Agriculture' },
      { suffix: 'Voiles', category: 'Leisure' },
      { suffix: 'Édition', category: 'Media' },
    ],
    services: ['Interior design', 'Showroom', 'Extension', 'Permit drawings', 'Site supervision', 'Survey'],
  },
]
