import { registerInstrumentations } from '@opentelemetry/instrumentation'
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici'
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

new NodeTracerProvider().register()
registerInstrumentations({ instrumentations: [new UndiciInstrumentation()] })
