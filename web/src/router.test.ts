import { expect, it } from 'vitest'
import { settingsOf, settingsPath } from './router'

it.each([
  ['/', undefined], ['/t/settings', undefined], ['/settingsx', undefined],
  ['/settings', { section: 'servers' }], ['/settings/', { section: 'servers' }], ['/settings/servers', { section: 'servers' }],
  ['/settings/servers/a%20b%2Fc', { section: 'servers', serverId: 'a b/c' }],
  ['/settings/servers/%E0%A4%A', { section: 'missing' }],
  ['/settings/rules', { section: 'rules' }], ['/settings/rules/x', { section: 'missing' }], ['/settings/servers/a/b', { section: 'missing' }], ['/settings/nothing', { section: 'missing' }],
])('%s', (path, place) => expect(settingsOf(path)).toEqual(place))

it('writes addresses that it reads', () => expect(settingsOf(settingsPath('servers', 'my files/ü'))).toEqual({ section: 'servers', serverId: 'my files/ü' }))
