import { useEffect, useState } from 'react'
import { api, type Model } from '../api/client'

let cached: Promise<Model[]> | undefined

function load(): Promise<Model[]> {
  cached ??= api.models().catch((error: unknown) => {
    cached = undefined
    throw error
  })
  return cached
}

/** The models that there are, once they are known. */
export function useModels(): { models: Model[] | undefined; failed: boolean } {
  const [models, setModels] = useState<Model[]>()
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    let alive = true
    load().then(
      (list) => alive && setModels(list),
      () => alive && setFailed(true),
    )
    return () => {
      alive = false
    }
  }, [])
  return { models, failed }
}

/** The model that answers from the next turn on. */
export function ModelPicker({ value, onChange }: { value: string | undefined; onChange(model: string): void }) {
  const { models, failed } = useModels()
  if (failed && !value) return <span className="note">The models could not be listed.</span>
  const names = new Set(models?.map((m) => m.name))
  const chosen = value ?? ''
  return (
    <label className="model">
      <span className="off-screen">Model</span>
      <select value={chosen} onChange={(event) => event.target.value !== '' && onChange(event.target.value)} disabled={!models && !value}>
        {value === undefined && <option value="">Default model</option>}
        {chosen !== '' && !names.has(chosen) && <option value={chosen}>{chosen}</option>}
        {models?.map((m) => (
          <option key={m.name} value={m.name}>
            {m.name}
          </option>
        ))}
      </select>
    </label>
  )
}
