// Called by Next.js once when a server starts, and not in `next build`. On serverless hosts, where no process stays,
// deliver elsewhere: `business-api-kit deliver`, or runOnce() from a scheduled route.

export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { startDeliveries } = await import('./lib/deliveries')
  startDeliveries()
}
