// Called once by Next.js when a server starts, but not in `next build`. On serverless platforms no process
// keeps running, so deliver webhooks somewhere else with `business-api-kit deliver`, or call runOnce() from
// a scheduled route.

export async function register(): Promise<void> {
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { startDeliveries } = await import('./lib/deliveries')
  startDeliveries()
}
