export {
  createPlatform,
  type Platform,
  type PlatformOptions,
  type PublishOptions,
} from './platform/platform.ts'
