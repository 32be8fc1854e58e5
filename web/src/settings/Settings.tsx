import '../styles/settings.css'
import { MenuButton } from '../App'
import { lastConversation, type Section, type SettingsPlace, settingsPath } from '../router'
import { Boundary } from '../ui/Boundary'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { Assistants } from './Assistants'
import { Rules } from './Rules'
import { Server } from './Server'
import { Servers } from './Servers'

export interface SettingsProps {
  place: SettingsPlace
  me: string | undefined
  onMenu(): void
}

const names: readonly [Section, string][] = [
  ['servers', 'Tool servers'],
  ['rules', 'Rules'],
  ['assistants', 'Assistants'],
]

export function Settings({ place, me, onMenu }: SettingsProps) {
  // Of a session that is not known yet the server has the last word.
  const owner = me === undefined || me === 'owner'
  return (
    <>
      <header className="topic-head">
        <MenuButton onMenu={onMenu} />
        <PageLink to={lastConversation()} className="button quiet icon-button" label="Back to the conversation">
          <Icon name="back" />
        </PageLink>
        <h1>Settings</h1>
      </header>
      <nav className="settings-nav" aria-label="Settings">
        {names.map(([section, name]) => (
          <PageLink key={section} to={settingsPath(section)} current={place.section === section}>
            {name}
          </PageLink>
        ))}
      </nav>
      <div className="settings">
        <div className="settings-inner">
          <Boundary key={`${place.section} ${place.serverId ?? ''}`} what="This part of the settings">
            <Place place={place} owner={owner} />
          </Boundary>
        </div>
      </div>
    </>
  )
}

function Place({ place, owner }: { place: SettingsPlace; owner: boolean }) {
  switch (place.section) {
    case 'servers':
      return place.serverId === undefined ? <Servers owner={owner} /> : <Server id={place.serverId} owner={owner} />
    case 'rules':
      return <Rules />
    case 'assistants':
      return <Assistants />
    case 'missing':
      return (
        <div className="empty-state">
          <h2>There is no such page</h2>
          <PageLink to={settingsPath('servers')} className="button">
            Tool servers
          </PageLink>
        </div>
      )
  }
}
