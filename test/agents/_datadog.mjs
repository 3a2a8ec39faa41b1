import tracer from 'dd-trace'

tracer.init({ hostname: '127.0.0.1', port: 9, env: 'production', service: 'shop', startupLogs: false })
